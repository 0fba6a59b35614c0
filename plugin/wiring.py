"""The composition root: builds every adapter from the settings, for the CLI, the web app, the manager and the demo.

Nothing is imported, opened or contacted before it is used, so that `outfox --help` stays fast.
"""

import getpass
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from common.clock import Clock, SystemClock
from common.errors import Hint
from plugin.errors import SettingsError
from plugin.settings import PREFIX, Settings

if TYPE_CHECKING:
    from pathlib import Path

    from common.progress import Progress
    from crowd.errors import RetryPolicy
    from crowd.port import Crowd, EventQueue
    from crowd.profile import CrowdProfile
    from ml_backend.judge import RegistryJudge
    from ml_backend.registry.registry import Registry
    from plugin.attempt_delivery import Deliver
    from plugin.jobs.ray import ClusterSettings, RayJobRunner
    from plugin.jobs.ray_api import RayApi
    from plugin.manager.step import ManagerContext
    from round_manager.archive.storage import Archives
    from round_manager.crowd.workers import WorkerAccess
    from round_manager.database.store import LazyStore, Store
    from round_manager.evaluation.submitted_files import SubmittedFiles
    from round_manager.jobs import JobRequest, JobRunner
    from round_manager.labelstudio.port import LabelStudio
    from round_manager.mailer import Mailer
    from round_manager.services.attempts import AttemptIntake
    from round_manager.services.context import Actor, ConnectedCrowd, ServiceContext
    from round_manager.services.label_studio import ConnectedLabelStudio
    from round_manager.services.model_versions import ModelDeployment
    from round_manager.services.submission_runs import SubmissionPorts
    from round_manager.services.training import TrainingPorts
    from templates import Pack, Problem

# A command reports after this time that the marketplace does not answer.
SECONDS_TO_WAIT = 20.0


@dataclass(frozen=True)
class ManagerOptions:
    """What the command adds to the settings.

    `arguments` are the command's own global arguments, such as `--config FILE`, which training processes get too;
    `mode` is how models are trained, `last_round` the last round that opens automatically, and `timeout` how long
    serving processes may take to confirm a version.
    """

    arguments: Sequence[str] = ()
    mode: str | None = None
    last_round: int | None = None
    timeout: float = 60.0


class Application:
    """One running process of Outfox: its settings, its clock, and the adapters that the settings describe."""

    def __init__(self, settings: Settings, *, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock: Clock = clock or SystemClock()

    @cached_property
    def actor(self) -> "Actor":
        """The user who runs this process, as the audit log names them."""
        from round_manager.services.context import Actor

        return Actor(_operator_name())

    @contextmanager
    def open_store(self, *, upgrade: bool = False) -> "Iterator[Store]":
        """Open the database; close it at the end of the block."""
        from round_manager.database.store import open_store
        from round_manager.money.prices import FEES

        info, limits = {FEES: self.crowd_profile.fees}, self.settings.job_limits
        with open_store(self.settings.database, upgrade=upgrade, info=info, limits=limits) as store:
            yield store

    @cached_property
    def lazy_store(self) -> "LazyStore":
        """The database of a server, opened on first use; the process closes it when it ends."""
        from common.health import KEEP_SECONDS
        from round_manager.database.store import LazyStore, Store, open_store
        from round_manager.money.prices import FEES

        info, limits = {FEES: self.crowd_profile.fees}, self.settings.request_limits

        def opener(url: str) -> Store:
            return open_store(url, info=info, limits=limits)

        return LazyStore(self.settings.database, opener=opener, keep=KEEP_SECONDS)

    @contextmanager
    def services(self, *, upgrade: bool = False) -> "Iterator[ServiceContext]":
        """Open the database for use cases; close it at the end of the block."""
        from round_manager.services.context import ServiceContext

        with self.open_store(upgrade=upgrade) as store:
            yield ServiceContext(store, self.clock)

    @cached_property
    def crowd_profile(self) -> "CrowdProfile":
        """What the crowd that the settings name charges, guarantees and accepts; available without access keys."""
        from plugin.crowd import PROFILES

        return PROFILES[self.settings.crowd_kind]

    def event_queue(self) -> "EventQueue | None":
        """Return the queue to which the marketplace sends events, if there is one."""
        if not self.settings.crowd_queue_url:
            return None
        from mturk.event_queue import open_queue

        return open_queue(self.settings.crowd_queue_url, region=self.settings.crowd_region)

    def crowd(self, retries: "RetryPolicy | None" = None) -> "Crowd":
        """Return the marketplace that the settings name; nothing is sent to it yet."""
        from crowd.errors import RetryPolicy
        from mturk.client import open_crowd
        from mturk.connection import Endpoint

        settings = self.settings
        if not settings.has_crowd_keys:
            keys = f"{PREFIX}CROWD_KEY_ID and {PREFIX}CROWD_KEY_SECRET"
            hint = Hint("create_marketplace_account", account="NAME")
            raise SettingsError(f"the marketplace needs access keys: set {keys}", hint=hint)
        endpoint = Endpoint(
            settings.crowd_url,
            settings.crowd_key_id,
            settings.crowd_key_secret,
            name=settings.crowd_name,
            region=settings.crowd_region,
        )
        return open_crowd(endpoint, retries=retries or RetryPolicy(budget=SECONDS_TO_WAIT), now=self.clock.now)

    def connected_crowd(self, context: "ServiceContext", crowd: "Crowd") -> "ConnectedCrowd":
        """Return what posts, collects, pays and reconciles on that marketplace with this database."""
        from plugin.crowd import HitLinks
        from round_manager.services.context import connect_crowd

        links = HitLinks(self.settings.hit_pages, self.settings.signing_secrets())
        return connect_crowd(context, self.actor, crowd, links.url, queue_url=self.settings.crowd_queue_url)

    def worker_access(self) -> "WorkerAccess":
        """Return what grants qualifications on the marketplace, for a server."""
        from round_manager.crowd.workers import WorkerAccess

        return WorkerAccess(self.lazy_store.open(), self.crowd(), self.clock)

    def check_pack(self, pack: "Pack") -> "list[Problem]":
        """Return every problem of a pack, also those that Label Studio's own code finds in its templates."""
        from plugin.labelstudio.template_check import check_templates
        from round_manager.services.packs import check_pack

        return check_pack(pack, check_templates)

    def registry(self, place: str | None = None, *, cache: "Path | None" = None) -> "Registry":
        """Return the registry of model versions, of the settings or at another place; `cache` is for its downloads."""
        from ml_backend.registry.registry import open_registry

        return open_registry(place or self.settings.registry_location, cache or self.settings.cache_path / "models")

    def attempt_intake(self, lazy_store: "LazyStore | None" = None) -> "AttemptIntake":
        """Return what stores the ML backend's attempts in the database."""
        from round_manager.services.attempts import AttemptIntake

        where = self.settings.registry_location
        return AttemptIntake(lazy_store or self.lazy_store, self.registry, where, self.clock)

    def attempt_delivery(self, *, by_post: bool) -> "Deliver":
        """Return what delivers the ML backend's attempts: to the database, or by POST to the web app."""
        from plugin.attempt_delivery import AttemptSender, deliver_to

        if by_post:
            return AttemptSender(self.settings.web_url, self.settings.signing_secrets())
        return deliver_to(self.attempt_intake())

    def training_ports(self, place: str | None, rotation_timeout: float) -> "TrainingPorts":
        """Return what a training in this process needs."""
        from ml_backend.targets.footprint import version_peak_bytes
        from round_manager.learning.training_data import LocalTrainer
        from round_manager.services.training import TrainingPorts

        models = self.model_deployment(timeout=rotation_timeout, registry=place)

        def newest(task: str) -> "Path | None":
            versions = models.registry.versions(task)
            return models.registry.fetch(task, versions[0]) if versions else None

        return TrainingPorts(
            models=models,
            trainer=LocalTrainer(self.settings.models_path, self.settings.cache_path / "embeddings", newest),
            measure_memory=version_peak_bytes,
        )

    def job_runner(self, arguments: Sequence[str] = ()) -> "JobRunner":
        """Return where jobs run; `arguments` go before the command of a job here, such as `--config FILE`."""
        if self.settings.jobs_runner == "ray":
            return self.ray_runner()
        from plugin.jobs.local import LocalJobRunner
        from plugin.jobs.process import local_command

        return LocalJobRunner(os.environ, self._job_log, lambda request: local_command(request, arguments))

    def ray_runner(self) -> "RayJobRunner":
        """Return what runs jobs on the Ray cluster that the settings name."""
        from plugin.jobs.ray import RayJobRunner

        return RayJobRunner(self.ray_api(), self._cluster_settings(), self._job_log)

    def _job_log(self, request: "JobRequest") -> "Path":
        return self.settings.make_home() / f"{request.kind}-{request.task}.log"

    def ray_api(self) -> "RayApi":
        """Return the requests to the Ray cluster that the settings name; nothing is sent yet."""
        from plugin.jobs.ray_api import RayApi

        return RayApi(self.settings.jobs_address, self.settings.jobs_token)

    def _cluster_settings(self) -> "ClusterSettings":
        from plugin.jobs.ray import ClusterSettings

        settings = self.settings
        if not (settings.registry and settings.archives):
            text = f"jobs on a cluster need places that all machines reach: set {PREFIX}REGISTRY and {PREFIX}ARCHIVES"
            raise SettingsError(text, hint=Hint("list_settings"))
        environment = {
            f"{PREFIX}REGISTRY": _absolute(settings.registry),
            f"{PREFIX}ARCHIVES": _absolute(settings.archives),
        }
        return ClusterSettings(settings.installation_id, settings.jobs_config, environment)

    def submission_runner(self, arguments: Sequence[str] = ()) -> "JobRunner":
        """Return where submitted models are evaluated: on this machine, which is known to isolate them or to refuse."""
        from plugin.jobs.local import LocalJobRunner
        from plugin.jobs.process import submissions_command

        return LocalJobRunner(os.environ, self._job_log, lambda request: submissions_command(request, arguments))

    def submitted_files(self) -> "SubmittedFiles":
        """Return the folder of models that researchers submit."""
        from round_manager.evaluation.submitted_files import SubmittedFiles

        return SubmittedFiles(self.settings.submissions_path)

    def submission_ports(self) -> "SubmissionPorts":
        """Return what an evaluation of submitted models needs."""
        from round_manager.services.submission_runs import SubmissionPorts
        from templates import PackNotFound, SeedRow, find_pack

        def seed(task: str) -> Sequence[SeedRow]:
            try:
                pack = find_pack(task, self.settings.templates_path)
            except PackNotFound:
                return ()
            return [row for row in pack.seed if row.split == "held_out"]

        settings = self.settings
        return SubmissionPorts(self.submitted_files(), seed, settings.archives_location, settings.cache_path)

    def archives(self) -> "Archives":
        """Return the place where frozen rounds are kept."""
        from round_manager.archive.storage import open_archives

        return open_archives(self.settings.archives_location)

    def judge(self, registry: str | None = None) -> "RegistryJudge":
        """Return the judge that runs the registry's model versions; they are loaded when first needed."""
        from ml_backend.judge import RegistryJudge
        from ml_backend.targets.loading import load_target

        return RegistryJudge(lambda: self.registry(registry), load_target, now=self.clock.now)

    def label_studio(self) -> "LabelStudio":
        """Return the Label Studio that the settings name; nothing is sent to it yet."""
        from plugin.labelstudio.adapter import SdkLabelStudio

        return SdkLabelStudio(self.settings.label_studio_url, self.settings.label_studio_token)

    def connected_label_studio(self, context: "Callable[[], ServiceContext]") -> "ConnectedLabelStudio | None":
        """Return Label Studio with its connected tasks; None if the settings have no token for it."""
        from round_manager.services.label_studio import ConnectedLabelStudio

        if not self.settings.label_studio_token:
            return None
        return ConnectedLabelStudio(context, self.actor, self.label_studio(), self.judge())

    def mailer(self) -> "Mailer":
        """Return the mailer; for now it only logs."""
        from round_manager.mailer import LogMailer

        return LogMailer()

    def model_deployment(
        self, *, timeout: float, registry: str | None = None, progress: "Progress | None" = None
    ) -> "ModelDeployment":
        """Return what deploys model versions of a registry."""
        from ml_backend.targets.loading import load_target
        from round_manager.services.model_versions import ModelDeployment

        uri = registry or self.settings.registry_location
        return ModelDeployment(self.registry(uri), uri, load_target, timeout, progress)

    @contextmanager
    def manager_context(self, options: ManagerOptions) -> "Iterator[ManagerContext]":
        """Open everything that the manager works with; its jobs are stopped at the end of the block."""
        from plugin.backend_client import check_backend
        from plugin.crowd import check_pages
        from plugin.manager.step import ManagerContext
        from round_manager.services.context import Actor, Role
        from round_manager.services.submission_supervisor import SubmissionSupervisor
        from round_manager.services.training_supervisor import TrainingSupervisor

        settings = self.settings

        with self.services() as context:
            runner = self.job_runner(options.arguments)
            trainings = TrainingSupervisor(context, self.actor, runner, options.mode)
            submissions = SubmissionSupervisor(context, self.submission_runner(options.arguments))
            try:
                yield ManagerContext(
                    services=context,
                    actor=Actor(self.actor.name, Role.SYSTEM),
                    crowd=self.connected_crowd(context, self.crowd()) if settings.has_crowd_keys else None,
                    label_studio=self.connected_label_studio(lambda: context),
                    archives=self.archives,
                    models=lambda: self.model_deployment(timeout=options.timeout),
                    trainings=trainings,
                    submissions=submissions,
                    check_pages=lambda: check_pages(settings).are_ours,
                    check_backend=lambda task, number: check_backend(settings, task, number),
                    last_round=options.last_round,
                    our_pages=settings.serves_hit_pages,
                )
            finally:
                submissions.stop()
                trainings.stop()


def _absolute(place: str) -> str:
    """Return a place as other machines name it."""
    from pathlib import Path

    return place if "://" in place else str(Path(place).expanduser().resolve())


def _operator_name() -> str:
    """The user and the machine, for example `ada@workstation`."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"[:120]
