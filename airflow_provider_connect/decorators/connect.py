"""``@task.connect``: a function returns source and sink when the task runs."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import attrs
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, AssetAlias, BaseOperator
from airflow.sdk.bases.decorator import DecoratedOperator, _TaskDecorator, determine_kwargs
from airflow.sdk.bases.operator import get_merged_defaults
from airflow.sdk.definitions._internal.contextmanager import DagContext, TaskGroupContext
from airflow.sdk.definitions.context import context_merge

from airflow_provider_connect.config import Options
from airflow_provider_connect.errors import ConfigError, ConnectError
from airflow_provider_connect.operators.arguments import require_known_arguments, require_valid_values
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.operators.links import PublishedLink
from airflow_provider_connect.operators.outlets import add_outlet
from airflow_provider_connect.operators.reporting import emit_event
from airflow_provider_connect.operators.retry import CONNECT_RETRY_POLICY, to_airflow_error
from airflow_provider_connect.sink import Sink
from airflow_provider_connect.source import Source

if TYPE_CHECKING:
    from airflow.sdk import Context, RetryPolicy
    from airflow.sdk.bases.decorator import TaskDecorator

    from airflow_provider_connect.job import JobReport
    from airflow_provider_connect.operators.streams.report import TaskReport

_RETURNED_BY_FUNCTION = ("source", "sink")


class _FunctionOperator(ConnectOperator):
    """Operator that a decorated task builds in a run.

    :param alias: carries the event of an undeclared asset.
    """

    declared_by = "function"
    alias: AssetAlias | None = None
    emits: bool = False

    def _emit_event(self, context: Context, report: JobReport | TaskReport) -> None:
        if self.alias is not None and isinstance(self.asset, Asset):
            context["outlet_events"][self.alias].add(self.asset, extra=report.summary())
        elif self.alias is not None:
            emit_event(context["outlet_events"][self.alias], self.asset_events, report)
        elif self.emits:
            super()._emit_event(context, report)


class ConnectDecoratedOperator(DecoratedOperator):
    """Task whose function returns source and sink.

    :param op_args: the function's arguments (templated), as ``op_kwargs``.
    :param asset: as for :class:`ConnectOperator`. Without it only an :class:`AssetAlias` in ``outlets`` gets an event.
    :param kwargs: other arguments of :class:`ConnectOperator`.
    """

    custom_operator_name = "@task.connect"
    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, "options", "source", "sink", "days")
    template_fields_renderers = {
        **DecoratedOperator.template_fields_renderers,
        "options": "json",
        "source": "json",
        "sink": "json",
    }
    ui_color = ConnectOperator.ui_color
    operator_extra_links = (PublishedLink(),)
    overwrite_rtif_after_execution = True  # so that the fields show the moved days

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        asset: Asset | None = None,
        outlets: Any = None,
        retries: int | None = 3,
        retry_policy: RetryPolicy | None = CONNECT_RETRY_POLICY,
        **kwargs: Any,
    ) -> None:
        # Airflow itself applies default_args to the arguments named above.
        defaults = kwargs.get("default_args") or {}
        names = _operator_argument_names()
        options = {name: value for name, value in defaults.items() if name in names - {*_RETURNED_BY_FUNCTION}}
        options |= {name: kwargs.pop(name) for name in kwargs.keys() & names}
        self.options = dict(sorted(options.items()))
        _check_options(self.options, asset)
        if asset is not None:
            outlets, asset = add_outlet(outlets, asset)
        self.asset = asset
        # These three show the function's result after the call.
        self.source: dict[str, Any] | None = None
        self.sink: dict[str, Any] | None = None
        self.days: str | None = None
        self.published_link = ""
        self._operator: _FunctionOperator | None = None
        super().__init__(
            python_callable=python_callable,
            op_args=op_args,
            op_kwargs=op_kwargs,
            outlets=outlets,
            retries=retries,
            retry_policy=retry_policy,
            **kwargs,
        )
        if self.options.get("asset_events", "task") == "day" and asset is None:
            raise ConfigError("@task.connect: asset_events='day' needs asset=Asset(…)")

    def render_template(self, content: Any, context: Any, jinja_env: Any = None, seen_oids: Any = None) -> Any:
        """Render a templated field, also the text options of a shape."""
        if not isinstance(content, Options):
            return super().render_template(content, context, jinja_env, seen_oids)
        render = super().render_template
        return content.rendered(lambda text: render(text, context, jinja_env))

    def execute(self, context: Context) -> dict[str, Any]:
        """Call the function, do the work of :meth:`ConnectOperator.execute`, and return the short report."""
        return self.go_on(context)

    def go_on(
        self, context: Context, event: Any = None, left: dict[str, Any] | None = None, moved: str | None = None
    ) -> dict[str, Any]:
        """Do the work of :meth:`execute`, also after a wait."""
        from airflow.sdk.exceptions import TaskDeferred  # noqa: PLC0415

        try:
            operator = self._build_operator(context)
            digest = _digest(operator)
            if moved is not None and moved != digest:
                raise ConfigError(
                    f"@task.connect: after a wait, {self.python_callable.__name__}() returned another source, sink or "
                    "days than before. Its result may depend on its arguments and on the run only"
                )
        except ConnectError as error:
            raise to_airflow_error(error) from None
        self._operator = operator
        try:
            return operator.go_on(context, event, left)
        except TaskDeferred as wait:
            wait.kwargs = {**(wait.kwargs or {}), "moved": digest}
            raise
        finally:
            self.source, self.sink = operator.source.serialize(), operator.sink.serialize()
            self.days = operator.days
            self.published_link = operator.published_link

    def on_kill(self) -> None:
        """Stop Spark and delete the task's files."""
        if self._operator is not None:
            self._operator.on_kill()

    def _build_operator(self, context: Context) -> _FunctionOperator:
        names: Any = dict(context)
        context_merge(names, self.op_kwargs)
        result = self.python_callable(*self.op_args, **determine_kwargs(self.python_callable, self.op_args, names))
        arguments = _arguments_from(self.python_callable.__name__, result)
        alias = next((outlet for outlet in self.outlets if isinstance(outlet, AssetAlias)), None)
        operator = _FunctionOperator(task_id=self.task_id, asset=self.asset, **(self.options | arguments))
        operator.emits = self.asset is not None
        operator.alias = alias if self.asset is None else None
        return operator


class ConnectTask(_TaskDecorator[Any, Any, ConnectDecoratedOperator]):
    """Result of ``@task.connect``: calling or expanding it in a DAG makes the task."""

    def _expand(self, expand_input: Any, *, strict: bool) -> Any:
        asset = self.kwargs.get("asset")
        dag = self.kwargs.get("dag") or DagContext.get_current()
        group = self.kwargs.get("task_group") or TaskGroupContext.get_current(dag)
        defaults, _ = get_merged_defaults(
            dag=dag, task_group=group, task_params=None, task_default_args=self.kwargs.get("default_args")
        )
        signature = inspect.signature(ConnectDecoratedOperator.__init__).parameters
        default_names = {"retries", "retry_policy"} - defaults.keys() - self.kwargs.keys()
        extra_arguments: dict[str, Any] = {name: signature[name].default for name in default_names}
        if asset is not None:
            extra_arguments["outlets"], _ = add_outlet(self.kwargs.get("outlets", defaults.get("outlets")), asset)
        task: Any = attrs.evolve(self, kwargs=self.kwargs | extra_arguments)
        return super(ConnectTask, task)._expand(expand_input, strict=strict)


def connect_task(
    python_callable: Callable[..., Any] | None = None, *, multiple_outputs: bool | None = None, **kwargs: Any
) -> TaskDecorator:
    """Make a task from a function that returns ``(source, sink)``, or a dict of :class:`ConnectOperator`'s arguments.

    ::

        @task.connect(asset=Asset("s3://lake/events"), ready_after=timedelta(hours=2))
        def load(project):
            return MixpanelSource(conn_id=project["conn_id"]), DeltaSink(path=project["path"])

        load.expand(project=projects())

    The function runs at each try and after each wait, so its result may depend only on its arguments and the run. Text
    in the result is not rendered.

    :param multiple_outputs: also push each part of the report as an XCom.
    """
    _check_options(
        {name: value for name, value in kwargs.items() if name in _operator_argument_names()}, kwargs.get("asset")
    )
    require_known_arguments(ConnectOperator, kwargs)

    def decorate(function: Callable[..., Any]) -> Any:
        return ConnectTask(
            function=function,
            multiple_outputs=bool(multiple_outputs),  # the function's annotation does not describe the report
            operator_class=ConnectDecoratedOperator,
            kwargs=dict(kwargs),
        )

    return cast("TaskDecorator", decorate if python_callable is None else decorate(python_callable))


def _operator_argument_names() -> set[str]:
    names: set[str] = set()
    for cls in (ConnectOperator, SparkSubmitOperator):
        names |= inspect.signature(cls.__init__).parameters.keys()
    return names - inspect.signature(BaseOperator.__init__).parameters.keys() - {"self", "asset", "kwargs"}


def _check_options(options: Mapping[str, Any], asset: Any) -> None:
    if too_early := [name for name in _RETURNED_BY_FUNCTION if name in options]:
        raise ConfigError(f"@task.connect: {' and '.join(too_early)}: returned by the function. Remove it here")
    require_known_arguments(ConnectOperator, options)
    require_valid_values("@task.connect", dict(options) | {"asset": asset})


def _arguments_from(function_name: str, result: Any) -> dict[str, Any]:
    if isinstance(result, Mapping):
        arguments = {str(key): value for key, value in result.items()}
        too_early = sorted(arguments.keys() & (inspect.signature(BaseOperator.__init__).parameters.keys() | {"asset"}))
        if too_early:
            raise ConfigError(
                f"{function_name}() returned {', '.join(too_early)}, which Airflow needs before the run. "
                "Pass it to @task.connect"
            )
        require_known_arguments(ConnectOperator, arguments)
    elif isinstance(result, Sequence) and not isinstance(result, str) and len(result) == 2:
        arguments = dict(zip(_RETURNED_BY_FUNCTION, result, strict=True))
    else:
        raise ConfigError(f"{function_name}() must return (source, sink), or a dict of ConnectOperator's arguments")
    kinds = {"source": Source, "sink": Sink}
    if wrong_names := [which for which, kind in kinds.items() if not isinstance(arguments.get(which), kind)]:
        raise ConfigError(
            f"{function_name}() returned no {' and no '.join(wrong_names)}. "
            ""
            "It must return objects of airflow_provider_connect.sources and sinks"
        )
    return arguments


def _digest(operator: ConnectOperator) -> str:
    parts: list[Any] = [
        operator.source.name,
        operator.source.serialize(),
        operator.sink.name,
        operator.sink.serialize(),
        operator.days,
        [shape.serialize() for shape in operator.shape],
        str(operator.transform),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
