"""Ways to a server that are no plain port: TLS with a certificate of its own, a UNIX socket; here and over SSH."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from probes.endpoint import Endpoint
from probes.host import Host, HostError
from probes.probe import ProbeFailed
from probes.readings import HealthReading, MetricsReading
from probes.serving import ServingProbe
from tests.probes.hosts import PlainHost, Reader
from tests.probes.sshserver import SshServer, connected, serving

PAGE = b"vllm:num_requests_running 3\n"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while (head := await reader.readuntil(b"\r\n\r\n")).startswith(b"GET"):
            body = PAGE if b"/metrics" in head else b""
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def certificate(folder: Path, *, name: str, address: str = "") -> tuple[Path, Path]:
    """(certificate, key), signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [x509.DNSName(name)]
    names += [x509.IPAddress(ipaddress.ip_address(address))] if address else []
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, secret = folder / f"{name}.pem", folder / f"{name}.key"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return pem, secret


@pytest.fixture
async def secure(tmp_path: Path) -> AsyncIterator[tuple[int, Path]]:
    """(port, certificate) of a server with TLS whose certificate names the host, not its loopback."""
    pem, key = certificate(tmp_path, name="llm-two")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    yield server.sockets[0].getsockname()[1], pem
    server.close()


@pytest.fixture(params=["here", "over SSH"])
async def host(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    async with AsyncExitStack() as stack:
        if request.param == "here":
            yield PlainHost()
        else:
            server = await stack.enter_async_context(serving(SshServer()))
            yield await stack.enter_async_context(connected(server))


async def asked(host: Host, endpoint: Endpoint, until: type[HealthReading] | type[MetricsReading]) -> Reader:
    reader = Reader(ServingProbe(host, endpoint).batches())
    await reader.until(lambda reader: reader.of(until))
    await reader.stop()
    return reader


async def test_a_certificate_that_nobody_vouches_for_is_one_sentence_with_the_way_out(
    host: Host, secure: tuple[int, Path]
) -> None:
    port, _ = secure
    [health] = (await asked(host, Endpoint(port=port, tls=True), HealthReading)).of(HealthReading)[:1]
    assert health.status is None
    assert "certificate is not accepted (self-signed certificate)" in health.error
    assert "tls_ca" in health.error
    assert "tls_verify = false" in health.error
    assert health.error.count("\n") == 0


@pytest.mark.parametrize("trusted", ["its CA", "any"])
async def test_a_server_with_a_certificate_of_its_own_is_asked(
    host: Host, secure: tuple[int, Path], trusted: str
) -> None:
    port, pem = secure
    endpoint = Endpoint(port=port, tls=True, ca=str(pem) if trusted == "its CA" else "", verify=trusted == "its CA")
    reader = await asked(host, endpoint, MetricsReading)
    assert reader.of(HealthReading)[0].status == 200
    assert reader.of(MetricsReading)[0].samples[0].value == 3


async def test_another_ca_is_no_ca_of_this_server(host: Host, secure: tuple[int, Path], tmp_path: Path) -> None:
    port, _ = secure
    other, _ = certificate(tmp_path, name="other")
    reader = await asked(host, Endpoint(port=port, tls=True, ca=str(other)), HealthReading)
    assert "not accepted" in reader.of(HealthReading)[0].error


async def test_without_a_word_https_trusts_whom_this_machine_trusts_and_compares_names() -> None:
    context = Endpoint(tls=True).trust()
    assert context is not None
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert context.cert_store_stats() == ssl.create_default_context().cert_store_stats()
    assert Endpoint(ca="/nowhere", verify=False).trust() is None, "plain http trusts nobody"


async def test_away_from_the_loopback_the_name_must_be_right(tmp_path: Path) -> None:
    pem, _ = certificate(tmp_path, name="llm-two")
    for name, compared in (("127.0.0.1", False), ("::1", False), ("localhost", False), ("10.0.0.7", True)):
        context = Endpoint(host=name, tls=True, ca=str(pem)).trust()
        assert context is not None
        assert (context.check_hostname, context.verify_mode) == (compared, ssl.CERT_REQUIRED), name


@pytest.mark.parametrize("text", [None, "", "no certificate\n"])
async def test_a_ca_file_that_is_none_is_one_sentence(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "ca.pem"
    if text is not None:
        path.write_text(text)
    failed = await Reader(ServingProbe(PlainHost(), Endpoint(tls=True, ca=str(path))).batches()).end()
    assert isinstance(failed, ProbeFailed)
    assert failed.state == "missing"
    assert str(path) in failed.reason
    assert "tls_ca" in failed.remedy


async def test_a_unix_socket_is_asked(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    server = await asyncio.start_unix_server(answer, path)
    reader = await asked(host, Endpoint(socket=str(path)), MetricsReading)
    assert (reader.of(HealthReading)[0].status, reader.of(HealthReading)[0].endpoint) == (200, f"unix:{path}")
    assert reader.of(MetricsReading)[0].samples[0].value == 3
    server.close()


@pytest.mark.parametrize("left", [False, True])
async def test_a_socket_where_nobody_listens_is_the_normal_answer_while_loading(
    host: Host, tmp_path: Path, left: bool
) -> None:
    path = tmp_path / "v.sock"
    if left:  # by a server that was killed
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
    reader = await asked(host, Endpoint(socket=str(path)), HealthReading)
    assert (reader.of(HealthReading)[0].status, reader.of(HealthReading)[0].error) == (None, "refused")


async def test_a_server_that_forbids_it_is_said_with_its_option() -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(SshServer(forwarding=False)))
        host = await stack.enter_async_context(connected(server))
        failed = await Reader(ServingProbe(host, Endpoint(socket="/run/v.sock")).batches()).end()
    assert isinstance(failed, HostError)
    assert "forbids connections to its /run/v.sock" in failed.reason
    assert "AllowStreamLocalForwarding" in failed.remedy
