// Class Policy of the extension: the policy of a checkpoint, which acts on numpy arrays.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/python/extension/arrays.h"
#include "ding_worker/python/extension/module.h"
#include "ding_worker/python/extension/process_guard.h"
#include "ding_worker/python/extension/transitions.h"
#include "ding_worker/worker/saved_policy/saved_policy.h"

namespace ding {
namespace {

namespace py = pybind11;

class CheckpointPolicy {
 public:
  CheckpointPolicy(const std::string& checkpoint, bool sample, uint64_t seed) {
    ActorOptions options;
    options.sample = sample;
    options.seed = seed;
    policy_ = ValueOrThrow(SavedPolicy::Load(checkpoint, options));
    obs_.emplace(policy_->observation());
    action_names_ = NamesWithin(*policy_->action(), "action");
  }

  // `obs` is an observation or [B, ...] of them: an array, or a dict of arrays by field. Returns an
  // action, or [B, ...] of them.
  py::object Act(const py::object& obs, const std::vector<int>& ids) {
    const auto use = guard_.Enter();
    std::optional<int64_t> batch;
    const ColumnsView rows = obs_->Read(obs, &batch);
    absl::StatusOr<ColumnsView> actions = absl::UnknownError("");
    if (rows.rows() == 1) {
      actions = policy_->Act(rows, ids);  // It takes less time than the GIL.
    } else {
      const py::gil_scoped_release release_gil;
      actions = policy_->Act(rows, ids);
    }
    return Actions(ValueOrThrow(std::move(actions)), batch);
  }

  void Begin(const std::vector<int>& ids) {
    const auto use = guard_.Enter();
    ThrowIfError(policy_->Begin(ids));
  }

 private:
  py::object Actions(const ColumnsView& actions, const std::optional<int64_t>& batch) const {
    py::dict by_name;
    for (int i = 0; i < policy_->action()->size(); ++i) {
      const FieldSpec& field = policy_->action()->fields()[static_cast<size_t>(i)];
      Shape shape = field.shape;
      if (batch.has_value()) shape.insert(shape.begin(), *batch);
      py::object array = MakeArray(field.dtype, shape, actions.raw_column(i), py::handle());
      if (policy_->action()->size() == 1) return array;
      by_name[py::str(action_names_[static_cast<size_t>(i)])] = std::move(array);
    }
    return std::move(by_name);
  }

  UseGuard guard_{"the policy"};
  std::unique_ptr<SavedPolicy> policy_;
  std::optional<ObservationReading> obs_;
  std::vector<std::string> action_names_;
};

}  // namespace

void BindPolicy(py::module_& module) {
  using py::arg;
  py::class_<CheckpointPolicy>(module, "Policy",
                               "The policy of a checkpoint. One thread at a time.")
      .def(py::init<const std::string&, bool, uint64_t>(), arg("checkpoint"), py::kw_only(),
           arg("sample") = false, arg("seed") = 0,
           "`checkpoint` is its folder. `sample`: act as in training, else by the best actions.")
      .def("act", &CheckpointPolicy::Act, arg("obs"), arg("ids") = std::vector<int>(),
           "The action for an observation, or for a batch [B, ...] of them. A policy with memory "
           "keeps a state\nfor each id; without ids, row i is id i.")
      .def("reset", &CheckpointPolicy::Begin, arg("ids") = std::vector<int>(),
           "New episodes begin: drops the memory of these ids, or of all.");
}

}  // namespace ding
