"""Rolling a unit's files back on a real host, and what can stand in the way: nothing is half done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from probes.operate.files import read_files, saved
from probes.operate.orders import File, Order, UnitFiles
from probes.readings import UnitFile
from tests.host.machine import Machine
from tests.host.operator import Operator, outcomes, story
from tests.host.proxy import Proxy
from tests.host.service import Service, fresh_name, shell
from tests.host.watcher import Watcher
from watch.plan import plan, undo

GOOD = f"[Unit]\nDescription=a server\n[Service]\nExecStart={shell('echo good; exec sleep 600')}\n"
OTHER = GOOD.replace("echo good", "echo other")
BAD = GOOD.replace("echo good; exec sleep 600", "echo bad; exit 3")
DROP_IN = "[Service]\nEnvironment=A=1\n"


def path_of(service: Service) -> str:
    return f"/etc/systemd/system/{service.name}.service"


def text_of(machine: Machine, path: str) -> str:
    return machine.root.joinpath(path.lstrip("/")).read_text()


@pytest.fixture
async def ann(target: str) -> AsyncIterator[Operator]:
    async with Operator(target) as ann:
        yield ann


async def files(ann: Operator, service: Service) -> UnitFiles:
    return await read_files(ann.host, await ann.rights(service.name), service.name)


async def undone(ann: Operator, service: Service) -> Order:
    rights = await ann.rights(service.name)
    made = undo(await files(ann, service), (await saved(ann.host, rights, service.name))[0])
    assert not made.refused
    return ann.order("undo", service.name, edits=made.edits, expect=made.expect, verify=made.verify)


async def test_back_to_known_good_after_a_bad_edit_and_undone_again(
    machine: Machine, ann: Operator, service: Service
) -> None:
    service.write(GOOD)
    await service.start(wait=True)
    known_good = list((await files(ann, service)).files)
    service.write(BAD)
    steps = await ann.does("restart", service.name)
    assert steps[-1].outcome == "failed", story(steps)

    steps = await ann.has_done(await ann.rollback(service.name, known_good))
    assert steps[-1].outcome == "done", story(steps)
    assert outcomes(steps) == dict.fromkeys(
        ["check", "verify", "save", "write", "reload", "stop", "leftovers", "start", "end"], "done"
    ) | {"memory": "skipped"}
    assert text_of(machine, path_of(service)) == GOOD
    assert await service.shows("ActiveState") == "active"
    assert await service.shows("NeedDaemonReload") == "no"

    # undone the same way: the bad text returns, is started, and fails as it did
    steps = await ann.has_done(await undone(ann, service))
    assert steps[-1].outcome == "failed", story(steps)
    assert text_of(machine, path_of(service)) == BAD
    # and that can be undone as well
    steps = await ann.has_done(await undone(ann, service))
    assert steps[-1].outcome == "done", story(steps)
    assert text_of(machine, path_of(service)) == GOOD
    assert not list(machine.root.joinpath("etc/systemd/system").glob("*.firstlight"))


async def test_failing_at_once_after_a_roll_back_offers_undo_and_does_not_loop(
    machine: Machine, ann: Operator, service: Service
) -> None:
    service.write(GOOD)
    await service.start(wait=True)
    steps = await ann.has_done(await ann.rollback(service.name, [File(path_of(service), BAD)]))
    assert steps[-1].outcome == "failed", story(steps)
    assert "failed at once" in steps[-1].detail
    assert "/var/lib/firstlight/" in steps[-1].undo
    assert sum(step.step == "start" and step.outcome == "begun" for step in steps) == 1


async def test_drop_ins_that_went_and_came(machine: Machine, ann: Operator, service: Service) -> None:
    folder = f"{path_of(service)}.d"
    machine.write(f"{folder}/10-a.conf", DROP_IN)
    machine.write(f"{folder}/20-b.conf", "[Service]\nEnvironment=B=1\n")
    service.write(GOOD)
    before = list((await files(ann, service)).files)
    assert [file.path.rpartition("/")[2] for file in before[1:]] == ["10-a.conf", "20-b.conf"]
    machine.root.joinpath(folder.lstrip("/"), "10-a.conf").unlink()
    machine.write(f"{folder}/30-c.conf", "[Service]\nEnvironment=C=1\n")
    machine.run("systemctl", "daemon-reload")

    steps = await ann.has_done(await ann.rollback(service.name, before))
    assert steps[-1].outcome == "done", story(steps)
    assert list((await files(ann, service)).files) == before
    assert await service.shows("Environment") == "A=1 B=1"

    steps = await ann.has_done(await undone(ann, service))
    assert steps[-1].outcome == "done", story(steps)
    assert await service.shows("Environment") == "B=1 C=1"


async def test_a_template_instance_gets_files_of_its_own(machine: Machine, ann: Operator) -> None:
    stem = fresh_name("vllm-many")
    template = f"/etc/systemd/system/{stem}@.service"
    machine.write(template, OTHER)
    machine.write(f"{template}.d/10-a.conf", DROP_IN)
    machine.run("systemctl", "daemon-reload")
    one, two = f"{stem}@one.service", f"{stem}@two.service"
    wanted = [File(template, GOOD), File(f"{template}.d/10-a.conf", "[Service]\nEnvironment=A=2\n")]
    steps = await ann.has_done(await ann.rollback(one, wanted))
    assert steps[-1].outcome == "done", story(steps)
    assert text_of(machine, template) == OTHER
    assert text_of(machine, f"/etc/systemd/system/{one}") == GOOD
    assert machine.run("systemctl", "show", "-p", "Environment", "--value", one).text.strip() == "A=2"
    assert machine.run("systemctl", "show", "-p", "Environment", "--value", two).text.strip() == "A=1"
    assert (await ann.does("stop", one))[-1].outcome == "done"


async def test_a_unit_of_a_package_is_overridden_and_left_alone(
    machine: Machine, ann: Operator, service: Service
) -> None:
    packaged = f"/usr/lib/systemd/system/{service.name}.service"
    machine.write(packaged, OTHER)
    machine.run("systemctl", "daemon-reload")
    steps = await ann.has_done(await ann.rollback(service.name, [File(packaged, GOOD)]))
    assert steps[-1].outcome == "done", story(steps)
    assert text_of(machine, packaged) == OTHER
    assert text_of(machine, path_of(service)) == GOOD
    assert await service.shows("FragmentPath") == path_of(service)
    steps = await ann.has_done(await undone(ann, service))
    assert steps[-1].outcome == "done", story(steps)
    assert await service.shows("FragmentPath") == packaged


async def test_through_a_link_its_target_is_written(machine: Machine, ann: Operator, service: Service) -> None:
    real = f"/opt/deploy/{service.name}.service"
    machine.write(real, OTHER)
    machine.run("systemctl", "link", real)
    link = (await files(ann, service)).files[0].path
    steps = await ann.has_done(await ann.rollback(service.name, [File(link, GOOD)]))
    assert steps[-1].outcome == "done", story(steps)
    assert text_of(machine, real) == GOOD
    assert machine.root.joinpath(path_of(service).lstrip("/")).is_symlink()
    steps = await ann.has_done(await undone(ann, service))
    assert steps[-1].outcome == "done", story(steps)
    assert text_of(machine, real) == OTHER
    assert machine.root.joinpath(path_of(service).lstrip("/")).is_symlink()


async def test_masked_and_transient_units_are_refused(machine: Machine, ann: Operator, service: Service) -> None:
    machine.run("systemctl", "mask", "--runtime", f"{service.name}.service")
    assert "unmask" in plan(await files(ann, service), [File(path_of(service), GOOD)]).refused
    machine.run("systemctl", "unmask", "--runtime", f"{service.name}.service")
    machine.run("systemd-run", "--quiet", f"--unit={service.name}", "sleep", "600")
    found = await files(ann, service)
    assert "systemd-run" in plan(found, [File(found.files[0].path, GOOD)]).refused


async def test_a_file_changed_between_the_difference_and_the_yes(
    machine: Machine, ann: Operator, service: Service
) -> None:
    service.write(BAD)
    order = await ann.rollback(service.name, [File(path_of(service), GOOD)])
    machine.write(path_of(service), OTHER)
    steps = await ann.has_done(order)
    assert steps[-1].outcome == "failed", story(steps)
    assert "changed since they were shown" in steps[-1].detail
    assert text_of(machine, path_of(service)) == OTHER


async def test_a_file_that_comes_into_force_only_by_the_reload(
    machine: Machine, ann: Operator, service: Service
) -> None:
    service.write(OTHER)
    await service.start(wait=True)
    began = await service.shows("InvocationID")
    machine.write(f"{path_of(service)}.d/99-by-hand.conf", DROP_IN)  # and no daemon-reload
    steps = await ann.has_done(await ann.rollback(service.name, [File(path_of(service), GOOD)]))
    assert steps[-1].outcome == "failed", story(steps)
    assert "99-by-hand.conf" in steps[-1].detail
    assert text_of(machine, path_of(service)) == OTHER
    assert await service.shows("InvocationID") == began


@pytest.mark.parametrize(
    "text",
    [
        "[Service]\nType=simple\n",
        "[Service]\nExecStart=/no/such/program --here\n",
        "[Service]\nExecStart=relative words\n",
    ],
)
async def test_what_systemd_does_not_accept_is_not_written(
    machine: Machine, ann: Operator, service: Service, text: str
) -> None:
    service.write(GOOD)
    await service.start(wait=True)
    began = await service.shows("InvocationID")
    steps = await ann.has_done(await ann.rollback(service.name, [File(path_of(service), text)]))
    assert steps[-1].outcome == "failed", story(steps)
    assert "systemd does not accept" in steps[-1].detail
    assert "/run/firstlight" not in steps[-1].detail
    assert text_of(machine, path_of(service)) == GOOD
    assert await service.shows("InvocationID") == began


async def test_a_read_only_etc(machine: Machine, ann: Operator, service: Service) -> None:
    service.write(OTHER)
    await service.start(wait=True)
    began = await service.shows("InvocationID")
    machine.run("mount", "--bind", "/etc/systemd/system", "/etc/systemd/system")
    machine.run("mount", "-o", "remount,bind,ro", "/etc/systemd/system")
    try:
        steps = await ann.has_done(await ann.rollback(service.name, [File(path_of(service), GOOD)]))
    finally:
        machine.run("umount", "/etc/systemd/system")
    assert steps[-1].outcome == "failed", story(steps)
    assert "Read-only file system" in steps[-1].detail
    assert steps[-1].undo == "the files are as they were"
    assert await service.shows("InvocationID") == began


async def test_a_full_disk(machine: Machine, ann: Operator, service: Service) -> None:
    service.write(OTHER)
    await service.start(wait=True)
    began = await service.shows("InvocationID")
    folder = f"{path_of(service)}.d"
    machine.run("mkdir", folder)
    machine.run("mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", folder)
    machine.write(f"{folder}/10-a.conf", DROP_IN)
    machine.run("systemctl", "daemon-reload")
    now = list((await files(ann, service)).files)
    # the first file can be written, the second cannot: neither is
    wanted = [File(path_of(service), GOOD), File(f"{folder}/10-a.conf", DROP_IN + "# words\n" * 2000)]
    try:
        steps = await ann.has_done(await ann.rollback(service.name, wanted))
        assert steps[-1].outcome == "failed", story(steps)
        assert "No space left" in steps[-1].detail
        assert list((await files(ann, service)).files) == now
        assert await service.shows("InvocationID") == began
    finally:
        machine.run("umount", folder)


async def test_to_the_fallback_unit_and_back(machine: Machine, ann: Operator, service: Service) -> None:
    second = Service(machine, fresh_name("vllm-fallback"))
    second.write(OTHER)
    service.write(GOOD)
    await service.start(wait=True)
    steps = await ann.does("fallback", service.name, fallback=second.name)
    assert steps[-1].outcome == "done", story(steps)
    assert (await service.shows("ActiveState"), await second.shows("ActiveState")) == ("inactive", "active")
    steps = await ann.does("fallback", second.name, fallback=service.name)
    assert steps[-1].outcome == "done", story(steps)
    assert (await service.shows("ActiveState"), await second.shows("ActiveState")) == ("active", "inactive")
    steps = await ann.does("fallback", service.name, fallback="vllm-nowhere")
    assert steps[-1].outcome == "failed", story(steps)
    assert await service.shows("ActiveState") == "active"


STEPS = ["begin", "check", "verify", "save", "write", "reload", "stop", "leftovers", "memory", "start"]


@pytest.mark.parametrize("step", STEPS)
async def test_the_link_cut_at_each_step_of_a_roll_back(
    machine: Machine, proxy: Proxy, service: Service, step: str
) -> None:
    service.write(BAD)
    async with Operator("far") as ann:
        order = await ann.rollback(service.name, [File(path_of(service), GOOD)])
        cuts: list[str] = []

        def cut(reading: object) -> None:
            if not cuts and ann.steps[-1].step == step:
                cuts.append(step)
                proxy.cut()

        steps = await ann.has_done(order, at=cut)
        assert cuts == [step]
    assert steps[-1].outcome == "done", story(steps)
    told = [(one.step, one.outcome, one.at) for one in steps if one.step != "link" and one.outcome != "wait"]
    assert len(set(told)) == len(told)  # none twice
    assert [one.step for one in steps if one.outcome == "begun"] == STEPS  # and none is missing
    assert text_of(machine, path_of(service)) == GOOD
    assert await service.shows("ActiveState") == "active"


async def test_the_link_cut_while_the_steps_are_handed_over(machine: Machine, proxy: Proxy, service: Service) -> None:
    service.write(BAD)
    async with Operator("far") as ann:
        order = await ann.rollback(service.name, [File(path_of(service), GOOD)])
        rights = await ann.rights(service.name)
        assert rights.level == "full"
        proxy.freeze()

        def cut() -> None:
            proxy.cut()
            proxy.thaw()

        asyncio.get_running_loop().call_later(0.5, cut)
        steps = await ann.has_done(order, rights)
    assert steps[-1].outcome == "done", story(steps)
    assert text_of(machine, path_of(service)) == GOOD
    assert await service.shows("ActiveState") == "active"


async def test_environment_files_are_read_with_the_unit(machine: Machine, target: str, service: Service) -> None:
    machine.write(f"/etc/{service.name}.env", "TP=8\nHF_TOKEN=abcdef\n", 0o600)
    service.write(GOOD.replace("[Service]", f"[Service]\nEnvironmentFile=/etc/{service.name}.env"))
    for login, files in (("root", {f"/etc/{service.name}.env": "TP=8\nHF_TOKEN=abcdef\n"}), ("guest", {})):
        async with Watcher(f"{login}@{target}", service.name) as seen:
            await seen.until(lambda seen=seen: seen.of(UnitFile))
            assert seen.of(UnitFile)[-1].environment == files
