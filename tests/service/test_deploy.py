"""The files that deploy the service, as far as the tools of this machine can look at them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from parts import require_command

DEPLOY = Path(__file__).parents[2] / "deploy"


def _program(name: str) -> str:
    return shutil.which(name) or name


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    require_command("systemd-analyze", "systemd")
    unit = (DEPLOY / "superarm.service").read_text(encoding="utf-8")
    here = unit.replace("/opt/superarm/bin/superarm", "/bin/true")  # not installed there
    (tmp_path / "superarm.service").write_text(here, encoding="utf-8")
    done = subprocess.run(
        [_program("systemd-analyze"), "verify", "--man=no", str(tmp_path / "superarm.service")],
        check=False,
        capture_output=True,
        text=True,
    )
    mine = [line for line in done.stderr.splitlines() if "superarm.service" in line]
    assert [line for line in mine if "User" not in line] == []


def test_nginx_takes_its_configuration(tmp_path: Path) -> None:
    require_command("nginx", "nginx")
    require_command("openssl", "openssl")
    for name in ("routes.pem", "routes.key"):
        (tmp_path / name).touch()
    subprocess.run(
        [
            *(_program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-subj", "/CN=routes.example.com", "-keyout", str(tmp_path / "routes.key")),
            *("-out", str(tmp_path / "routes.pem")),
        ],
        check=True,
        capture_output=True,
    )
    block = (DEPLOY / "nginx.conf").read_text(encoding="utf-8").replace("/etc/ssl", str(tmp_path))
    whole = f"pid {tmp_path}/pid;\nevents {{}}\nhttp {{\naccess_log off;\n{block}\n}}\n"
    (tmp_path / "nginx.conf").write_text(whole, encoding="utf-8")
    options = ["-t", "-c", str(tmp_path / "nginx.conf"), "-e", str(tmp_path / "errors")]
    done = subprocess.run(
        [_program("nginx"), *options], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_image_is_built_where_that_is_possible() -> None:
    docker = shutil.which("docker")
    if (
        docker is None
        or subprocess.run([docker, "info"], check=False, capture_output=True).returncode
    ):
        pytest.skip("docker does not run here")
    root = DEPLOY.parent
    subprocess.run(
        [docker, "build", "-q", "-f", str(DEPLOY / "Dockerfile"), str(root)],
        check=True,
        capture_output=True,
        timeout=600,
    )
