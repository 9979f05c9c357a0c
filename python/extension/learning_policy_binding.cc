// Class LearningPolicy of the extension: the modes of a policy that learns, for a loop in Python.
// ding_worker/policy.py has the classes that users see.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/python/extension/arrays.h"
#include "ding_worker/python/extension/module.h"
#include "ding_worker/python/extension/process_guard.h"
#include "ding_worker/python/extension/stream_tracker.h"
#include "ding_worker/python/extension/transitions.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/serial_run.h"
#include "ding_worker/worker/setup/experiment_setup.h"

namespace ding {
namespace {

namespace py = pybind11;

using Numbers = std::map<std::string, double>;

NamedValues ToValues(const Numbers& numbers) {
  NamedValues values;
  for (const auto& [name, value] : numbers) values.Set(name, value);
  return values;
}
Numbers FromValues(const NamedValues& values) { return Numbers(values.begin(), values.end()); }

// A dict of arrays [B, ...] that share the memory of the batch.
py::dict ToColumns(const Batch& batch) {
  py::dict columns;
  const py::object owner = BatchOwner(batch);
  for (int i = 0; i < batch.spec().size(); ++i) {
    const FieldSpec& field = batch.spec().field(i);
    Shape shape = field.shape;
    shape.insert(shape.begin(), batch.rows());
    KeyPath(field.name)
        .Set(columns, MakeArray(field.dtype, shape, batch.view().raw_column(i), owner));
  }
  return columns;
}

// The rows, each with the observation after it.
absl::StatusOr<Batch> WithNextObs(const SegmentBatch& data) {
  const Spec& rows = data.rows.spec();
  const int obs_fields = data.final_obs.spec().size();
  std::vector<FieldSpec> fields(rows.fields().begin(), rows.fields().end());
  for (int i = 0; i < obs_fields; ++i) {
    fields.push_back(rows.field(i));
    fields.back().name = NextObsColumn(fields.back().name);
  }
  DING_ASSIGN_OR_RETURN(SpecPtr spec, MakeSpec(std::move(fields)));
  DING_ASSIGN_OR_RETURN(BatchBuilder all, BatchBuilder::Create(std::move(spec), data.size()));
  const MutableColumnsView to = all.view();
  CopyRows(data.rows.view(), to, /*to_begin=*/0);
  for (int i = 0; i < obs_fields; ++i) {
    const int64_t bytes = rows.row_bytes(i);
    const std::byte* const obs = data.rows.view().raw_column(i);
    const std::byte* final_obs = data.final_obs.view().raw_column(i);
    std::byte* next = to.raw_column(rows.size() + i);
    for (const Segment& segment : data.segments) {
      const int64_t inner = (segment.length - 1) * bytes;
      std::memcpy(next, obs + (segment.begin + 1) * bytes, static_cast<size_t>(inner));
      std::memcpy(next + inner, final_obs, static_cast<size_t>(bytes));
      next += segment.length * bytes;
      final_obs += bytes;
    }
  }
  return std::move(all).Seal(data.size());
}

class LearningPolicy {
 public:
  LearningPolicy(const std::string& text, const std::string& source,
                 const std::vector<std::string>& settings) {
    const ExperimentConfig config = ValueOrThrow(LoadRunConfig(text, source, settings));
    const EnvSpec env =
        PlayerSpec(ValueOrThrow(MakeEnvManager(config, /*env_num=*/1, Clock::Real()))->env_spec());
    policy_ = ValueOrThrow(MakePolicy(config, env, PolicyModes()));
    obs_.emplace(env.observation);
    attributes_["discount_factor"] = config.policy().discount_factor();
    attributes_["nstep"] = config.policy().nstep();
    AddAttributes();
  }

  // Returns the outputs [B, ...] for observations [B, ...]: row i belongs to env ids[i].
  py::dict Act(bool collect, const py::object& obs, const std::vector<int>& ids,
               const Numbers& settings) {
    const auto use = guard_.Enter();
    std::optional<int64_t> batch;
    const ColumnsView rows = obs_->Read(obs, &batch);
    if (batch != static_cast<int64_t>(ids.size())) {
      throw py::value_error("there are other numbers of observations and of envs");
    }
    return collect ? ActIn(policy_->collect_mode(), rows, ids, settings)
                   : ActIn(policy_->eval_mode(), rows, ids, settings);
  }
  void Reset(bool collect, const std::vector<int>& ids) {
    const auto use = guard_.Enter();
    ThrowIfError(collect ? policy_->collect_mode()->Reset(ids) : policy_->eval_mode()->Reset(ids));
  }

  // Columns of consecutive transitions of one env become columns of samples.
  py::dict GetTrainSample(const py::dict& columns) {
    const auto use = guard_.Enter();
    const TransitionReading reading = TransitionReading::Of(columns, /*columns=*/true);
    PushedColumns pushed;
    reading.ReadColumns(columns, &pushed);
    std::vector<SegmentEnd> ends;
    reading.FindEnds(pushed, &ends);
    SegmentBatch data;
    std::vector<int64_t> last_rows;
    ThrowIfError(
        StreamTracker().Cut({absl::MakeConstSpan(pushed.rows).first(pushed.next_obs.size()),
                             pushed.next_obs, reading.obs().get(), /*streams=*/{}, ends},
                            &data.segments, &last_rows));
    BlockPool rows_pool(reading.rows());
    BlockPool obs_pool(reading.obs());
    ThrowIfError(reading.MakeBlocks(pushed, last_rows, &rows_pool, &obs_pool, &data));
    data = ValueOrThrow(policy_->collect_mode()->GetTrainSample(std::move(data)));
    return ToColumns(ValueOrThrow(WithNextObs(data)));
  }

  // Learns from a batch. Returns the numbers of each optimizer step, the priorities with them.
  py::list Learn(const py::dict& columns, const Numbers& settings) {
    const auto use = guard_.Enter();
    LearnMode* const mode = policy_->learn_mode();
    const Batch batch = ReadBatch(columns, mode->attributes().sequences);
    const NamedValues values = ToValues(settings);
    absl::Status status;
    {
      const py::gil_scoped_release release;
      status = mode->Forward(batch, values, &steps_);
    }
    ThrowIfError(status);
    py::list outputs;
    for (const LearnStep& step : steps_) {
      py::dict output = py::cast(FromValues(step.scalars));
      if (!step.priority.empty()) output["priority"] = step.priority;
      outputs.append(std::move(output));
    }
    return outputs;
  }

  // The settings that the policy wants for a mode at this progress.
  Numbers Settings(const std::string& mode, const Numbers& progress) {
    const auto use = guard_.Enter();
    CommandMode* const command = policy_->command_mode();
    const NamedValues info = ToValues(progress);
    if (mode == "collect") return FromValues(command->GetSettingCollect(info));
    if (mode == "learn") return FromValues(command->GetSettingLearn(info));
    return FromValues(command->GetSettingEval(info));
  }

  // They never change. Those of learning are missing if the policy does not learn.
  py::dict attributes() const { return attributes_; }
  // The names of the modes that the policy has.
  std::vector<std::string> Modes() const {
    std::vector<std::string> modes = {"collect", "eval"};
    if (policy_->learn_mode() != nullptr) modes.emplace_back("learn");
    if (policy_->command_mode() != nullptr) modes.emplace_back("command");
    return modes;
  }

  py::dict StateDictOf() {
    const auto use = guard_.Enter();
    StateDict state;
    ThrowIfError(Save(&state));
    return StateToDict(state);
  }
  // A state that does not fit changes nothing.
  void LoadStateDict(const py::dict& dict) {
    const auto use = guard_.Enter();
    std::vector<py::object> keep;
    StateDict state = StateOfDict(dict, &keep);
    StateDict before;
    ThrowIfError(Save(&before));
    for (const auto& [name, tensor] : state.tensors()) {
      if (before.tensors().Find(name) != nullptr) continue;
      throw py::value_error(absl::StrCat("the state has '", name, "', which this policy has not"));
    }
    const absl::Status loaded = Load(&state);
    if (!loaded.ok()) ThrowIfError(Load(&before));
    ThrowIfError(loaded);
  }

 private:
  static constexpr char kModel[] = "model";
  static constexpr char kTrain[] = "train";
  static constexpr char kCollect[] = "collect";

  void AddAttributes() {
    const CollectAttributes collect = policy_->collect_mode()->attributes();
    attributes_["n_sample"] = collect.n_sample;
    attributes_["n_episode"] = collect.n_episode;
    attributes_["unroll_len"] = collect.unroll_len;
    attributes_["on_policy"] = collect.on_policy;
    attributes_["traj_len_inf"] = collect.traj_len_inf;
    if (policy_->learn_mode() == nullptr) return;
    const LearnAttributes learn = policy_->learn_mode()->attributes();
    attributes_["batch_size"] = learn.batch_size;
    attributes_["priority"] = learn.priority;
    attributes_["monitor_vars"] = policy_->learn_mode()->monitor_vars();
    attributes_["info"] = policy_->learn_mode()->info();
  }

  absl::Status Save(StateDict* state) const {
    ScopedStateWriter model(state, kModel);
    DING_RETURN_IF_ERROR(policy_->learn_mode()->SaveModel(&model));
    ScopedStateWriter train(state, kTrain);
    DING_RETURN_IF_ERROR(policy_->learn_mode()->SaveTrainState(&train));
    ScopedStateWriter collect(state, kCollect);
    return policy_->collect_mode()->SaveState(&collect);
  }
  absl::Status Load(StateDict* state) {
    ScopedStateReader model(state, kModel);
    DING_RETURN_IF_ERROR(policy_->learn_mode()->LoadModel(&model));
    ScopedStateReader train(state, kTrain);
    DING_RETURN_IF_ERROR(policy_->learn_mode()->LoadTrainState(&train));
    ScopedStateReader collect(state, kCollect);
    return policy_->collect_mode()->LoadState(&collect);
  }

  template <typename Mode>
  static py::dict ActIn(Mode* mode, const ColumnsView& rows, const std::vector<int>& ids,
                        const Numbers& settings) {
    BatchBuilder out = ValueOrThrow(BatchBuilder::Create(mode->output_spec(), rows.rows()));
    ThrowIfError(mode->Forward(rows, ids, ToValues(settings), out.view()));
    return ToColumns(std::move(out).Seal(rows.rows()));
  }

  UseGuard guard_{"the policy"};
  std::unique_ptr<Policy> policy_;
  std::optional<ObservationReading> obs_;
  py::dict attributes_;
  std::vector<LearnStep> steps_;
};

}  // namespace

void BindLearningPolicy(py::module_& module) {
  using py::arg;
  py::class_<LearningPolicy>(module, "LearningPolicy")
      .def(py::init<const std::string&, const std::string&, const std::vector<std::string>&>(),
           arg("text"), arg("source"), arg("settings"))
      .def("act", &LearningPolicy::Act, arg("collect"), arg("obs"), arg("ids"), arg("settings"))
      .def("reset", &LearningPolicy::Reset, arg("collect"), arg("ids"))
      .def("get_train_sample", &LearningPolicy::GetTrainSample, arg("columns"))
      .def("learn", &LearningPolicy::Learn, arg("columns"), arg("settings"))
      .def("settings", &LearningPolicy::Settings, arg("mode"), arg("progress"))
      .def_property_readonly("attributes", &LearningPolicy::attributes)
      .def_property_readonly("modes", &LearningPolicy::Modes)
      .def("state_dict", &LearningPolicy::StateDictOf)
      .def("load_state_dict", &LearningPolicy::LoadStateDict, arg("state_dict"));
}

}  // namespace ding
