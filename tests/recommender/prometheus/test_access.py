"""What a Prometheus is shown to let us in, and what can not be stated."""

import base64
import datetime
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from elastipod.clock import SystemClock
from elastipod.localcluster.api.certificate import serving_certificate
from recommender.settings import RecommenderSettings
from recommender.sources.prometheus.access import PrometheusAccess
from recommender.sources.prometheus.client import PrometheusClient, Unreachable
from tests.recommender.prometheus.loopback import Answer, Question, answering, vector

UP = vector([({"job": "x"}, 1)])


def headers_shown(tls: ssl.SSLContext | None = None, **access: Any) -> dict[str, str]:
    """The headers of a small question and of a streamed one, which are the same."""
    asked: list[Question] = []

    def answer(question: Question) -> Answer:
        asked.append(question)
        return Answer(UP)

    with answering(answer, tls) as url:
        client = PrometheusClient(PrometheusAccess(**({"url": f"{url}/"} | access)), SystemClock(), timeout_seconds=5)
        client.numbers("up")
        client.instant("up", 0.0, lambda _: None)
        client.close()
    kept = [{k: v for k, v in one.headers.items() if k not in ("Content-Length", "Content-Type")} for one in asked]
    assert kept[0] == kept[1]
    return kept[0]


def test_basic_credentials_are_shown() -> None:
    shown = headers_shown(username="päul", password="s:ecret")["Authorization"]
    assert base64.b64decode(shown.removeprefix("Basic ")).decode() == "päul:s:ecret"


def test_a_bearer_token_and_further_headers_are_shown() -> None:
    shown = headers_shown(token="t0ken", headers=("X-Scope-OrgID: team a",))
    assert shown["Authorization"] == "Bearer t0ken"
    assert shown["X-Scope-OrgID"] == "team a"


def test_a_token_that_is_replaced_in_its_file_is_shown_from_then_on(tmp_path: Path) -> None:
    path, seen = tmp_path / "token", []
    path.write_text("first\n")

    def answer(question: Question) -> Answer:
        seen.append(question.headers["Authorization"])
        path.write_text("second\n")
        return Answer(UP)

    with answering(answer) as url:
        client = PrometheusClient(PrometheusAccess(url, token_file=str(path)), SystemClock())
        client.numbers("up")
        client.numbers("up")
        client.close()
    assert seen == ["Bearer first", "Bearer second"]


def test_nobody_is_shown_what_stands_in_a_netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password mine\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert "Authorization" not in headers_shown()


def test_the_stated_proxy_is_asked_before_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def proxy(question: Question) -> Answer:
        asked.append(question.path)
        return Answer(UP)

    with answering(proxy) as url:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        client = PrometheusClient(PrometheusAccess("http://prometheus.invalid:9090", proxy=url), SystemClock())
        assert client.numbers("up") == [({"job": "x"}, 1.0)]
        client.close()
    assert asked == ["/api/v1/query"]


def test_a_server_proves_itself_and_is_shown_our_certificate(tmp_path: Path) -> None:
    serving, own = serving_certificate(), own_certificate(tmp_path)
    (tmp_path / "ca.pem").write_text(serving.pem)
    serving.tls.verify_mode = ssl.CERT_REQUIRED
    serving.tls.load_verify_locations(own["cert_file"])
    assert headers_shown(serving.tls, ca_file=str(tmp_path / "ca.pem"), **own)


def test_a_server_that_nobody_vouches_for_is_not_asked() -> None:
    with pytest.raises(Unreachable, match="certificate"):
        headers_shown(serving_certificate().tls)


@pytest.mark.parametrize(
    ("access", "told"),
    [
        ({"url": "prometheus:9090"}, "url: 'prometheus:9090' is no address"),
        ({"url": "http://[::1"}, r"url: 'http://\[::1' is no address"),
        ({"url": "http://prometheus:99999"}, "url: 'http://prometheus:99999' is no address"),
        ({"url": "ftp://me:secret@prometheus"}, "url: 'prometheus' is no address"),
        ({"url": "http://me:secret@prometheus"}, "url: holds a user name"),
        ({"url": "http://prometheus?x=1"}, "url"),
        ({"url": "file:///etc/passwd"}, "url"),
        ({"token": "a", "username": "b"}, "only one of them"),
        ({"password": "a"}, "password: needs a username"),
        ({"key_file": __file__}, "key_file: needs a cert_file"),
        ({"token_file": "/no/such"}, "token_file: there is no file"),
        ({"headers": ("X: a\r\nEvil: b",)}, "headers"),
        ({"headers": ("novalue",)}, "headers"),
        ({"proxy": "squid"}, "proxy"),
    ],
)
def test_what_can_not_be_is_refused_by_name(access: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        PrometheusAccess(**({"url": "http://prometheus"} | access))
    named = {f"prometheus_{name}": value for name, value in ({"url": "http://prometheus"} | access).items()}
    with pytest.raises(ValueError, match=f"prometheus_.*{told}"):
        RecommenderSettings(**named)


def test_secrets_are_in_no_text_of_it() -> None:
    access = PrometheusAccess("http://p", username="u", password="hidden", headers=("A: hidden",))
    assert "hidden" not in repr(access)


def own_certificate(folder: Path) -> dict[str, str]:
    """A certificate that signs itself, and its key, in two files."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "us")])
    since = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
    until = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)
    certificate = x509.CertificateBuilder(name, name, key.public_key(), 1, since, until).sign(key, hashes.SHA256())
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(secret)
    return {"cert_file": str(folder / "cert.pem"), "key_file": str(folder / "key.pem")}
