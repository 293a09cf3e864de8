"""A kubeconfig is read as kubectl reads it, and what can not be used is refused by name."""

import base64
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from elastipod.kube.access import Access, AccessError, load_access
from elastipod.kube.errors import Unreachable

TLS = Path(__file__).parent / "tls"


def _config(
    cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, namespace: str = "", name: str = "here"
) -> dict[str, Any]:
    return {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
        "clusters": [{"name": name, "cluster": {"server": "https://one.example:6443/"} | (cluster or {})}],
        "users": [{"name": name, "user": user or {}}],
    }


def _load(folder: Path, config: object, context: str | None = None) -> Access:
    path = folder / "config"
    path.write_text(yaml.safe_dump(config))
    return load_access(str(path), context, {})


async def _header(access: Access) -> str:
    return await access.credential.authorization(0.0)


async def test_server_namespace_and_token_come_from_the_current_context(tmp_path: Path) -> None:
    access = _load(tmp_path, _config(user={"token": "t0k3n"}, namespace="team"))
    assert (access.server, access.namespace) == ("https://one.example:6443", "team")
    assert await _header(access) == "Bearer t0k3n"
    assert access.tls is not None
    assert access.tls.verify_mode == ssl.CERT_REQUIRED


async def test_paths_start_at_the_folder_of_their_file(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes((TLS / "server.crt").read_bytes())
    (tmp_path / "token").write_text("from-file\n")
    access = _load(tmp_path, _config({"certificate-authority": "ca.pem"}, {"tokenFile": "token", "token": "other"}))
    assert access.tls is not None
    assert [one["serialNumber"] for one in access.tls.get_ca_certs()]
    assert await _header(access) == "Bearer from-file"


def test_client_certificates_may_stand_in_the_file_itself(tmp_path: Path) -> None:
    data = {
        f"client-{field}-data": base64.b64encode((TLS / f"server.{ending}").read_bytes()).decode()
        for field, ending in (("certificate", "crt"), ("key", "key"))
    }
    assert _load(tmp_path, _config(user=data)).tls is not None


async def test_a_name_and_password_are_sent_as_such(tmp_path: Path) -> None:
    access = _load(tmp_path, _config(user={"username": "me", "password": "secret"}))
    assert await _header(access) == "Basic " + base64.b64encode(b"me:secret").decode()


def test_verification_is_left_out_only_where_the_file_says_so(tmp_path: Path) -> None:
    access = _load(tmp_path, _config({"insecure-skip-tls-verify": True}))
    assert access.tls is not None
    assert access.tls.verify_mode == ssl.CERT_NONE


def test_several_files_are_one_and_the_first_wins(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text(yaml.safe_dump(_config(namespace="first")))
    two.write_text(yaml.safe_dump(_config(namespace="second")))
    other = tmp_path / "three"
    other.write_text(yaml.safe_dump(_config({"server": "https://three.example"}, name="third")))
    environ = {"KUBECONFIG": f"{tmp_path / 'missing'}:{one}:{two}:{other}"}
    assert load_access(None, None, environ).namespace == "first"
    assert load_access(None, "third", environ).server == "https://three.example"


async def test_in_a_pod_its_service_account_is_used(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes((TLS / "server.crt").read_bytes())
    (tmp_path / "namespace").write_text("elastipod")
    (tmp_path / "token").write_text("mounted")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = load_access(None, None, environ, tmp_path)
    assert (access.server, access.namespace) == ("https://[fd00::1]:443", "elastipod")
    assert await _header(access) == "Bearer mounted"


@pytest.mark.parametrize("environ", [{}, {"HOME": "/nonexistent"}, {"KUBECONFIG": "/nonexistent/config"}])
def test_no_way_to_a_cluster_says_what_to_do(environ: dict[str, str]) -> None:
    with pytest.raises(AccessError, match="--"):
        load_access(None, None, environ)


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="missing"):
        load_access(str(tmp_path / "missing"), None, {})


async def test_a_plugin_is_asked_by_the_client_library(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "dynamic"}}
    plugin.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    plugin.chmod(0o700)
    config = _config(user={"exec": {"apiVersion": answer["apiVersion"], "command": str(plugin)}})
    assert await _header(_load(tmp_path, config)) == "Bearer dynamic"


async def test_a_plugin_that_fails_is_named(tmp_path: Path) -> None:
    config = _config(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/nonexistent"}})
    with pytest.raises(Unreachable, match="plugin of context 'here'"):
        await _header(_load(tmp_path, config))


@pytest.mark.parametrize(
    ("cluster", "user", "named"),
    [
        ({"server": "ftp://x"}, {}, "server"),
        ({"server": "https://"}, {}, "server"),
        ({"server": "https://u:p@x"}, {}, "server"),
        ({"server": "https://x:99999"}, {}, "server"),
        ({"server": "https://x\nHost: y"}, {}, "server"),
        ({"server": 7}, {}, "server"),
        ({"server": "https://a..b"}, {}, "server"),
        ({"server": f"https://{'a' * 64}.b"}, {}, "server"),
        ({"server": "https://bücher.example"}, {}, "server"),
        ({"server": "http://x.example"}, {"token": "t"}, "in the open"),
        ({"insecure-skip-tls-verify": "yes"}, {}, "insecure-skip-tls-verify"),
        ({"certificate-authority-data": "!!"}, {}, "certificate-authority-data"),
        ({"certificate-authority-data": "aGVsbG8="}, {}, "certificate-authority"),
        ({"certificate-authority": "/nonexistent/ca"}, {}, "certificate-authority"),
        ({"certificate-authority": "a\0b"}, {}, "certificate-authority"),
        ({"proxy-url": "socks5://x"}, {}, "proxy-url"),
        ({"proxy-url": "http://x:99999"}, {}, "proxy-url"),
        ({"proxy-url": f"http://{'x' * 70}.example"}, {}, "proxy-url"),
        ({"proxy-url": "http://"}, {}, "proxy-url"),
        ({}, {"client-certificate-data": "aGVsbG8="}, "client-key"),
        ({}, {"client-certificate-data": "aGVsbG8=", "client-key-data": "aGVsbG8="}, "client-certificate"),
        ({}, {"token": "two words"}, "token"),
        ({}, {"token": ["t"]}, "token"),
        ({}, {"exec": "sh -c evil"}, "exec"),
    ],
)
def test_what_can_not_be_used_is_named(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], named: str
) -> None:
    with pytest.raises(AccessError, match=named):
        _load(tmp_path, _config(cluster, user))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[1, 2]", "mapping"),
        ("a: b: c", "YAML"),
        ("!!python/object/apply:os.system ['true']", "YAML"),
        ("clusters: 3\ncurrent-context: x", "clusters"),
        ("clusters: [3]\ncurrent-context: x", r"clusters\[0\]"),
        ("current-context: x", "context 'x'"),
        ("current-context: [x]", "current-context"),
        ("contexts: []", "--context"),
        ("a: " + "[" * 5000, "YAML"),
    ],
)
def test_a_file_of_another_shape_is_refused(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(AccessError, match=named):
        load_access(str(path), None, {})


_junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.sampled_from(["current-context", "clusters", "contexts", "users", "cluster", "user", "server", "token"]), _junk
)
def test_junk_anywhere_is_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, place: str, junk: object
) -> None:
    config = _config()
    inner = {"cluster": "clusters", "user": "users", "server": "clusters", "token": "users"}
    if place in ("cluster", "user"):
        config[inner[place]][0][place] = junk
    elif place in inner:
        config[inner[place]][0][inner[place][:-1]][place] = junk
    else:
        config[place] = junk
    try:
        _load(tmp_path_factory.mktemp("junk"), config)
    except AccessError as error:
        assert str(error)
