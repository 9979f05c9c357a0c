// Class VectorEnv of the extension: an env manager behind numpy arrays. The class of
// ding_worker/vector_env.py, which has the interface of Gymnasium, derives from it.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/python/extension/arrays.h"
#include "ding_worker/python/extension/module.h"
#include "ding_worker/python/extension/process_guard.h"
#include "ding_worker/python/extension/transitions.h"
#include "ding_worker/worker/config/text_config.h"

namespace ding {
namespace {

namespace py = pybind11;

// "obs" or "obs/pos" -> the path within the observation.
std::string WithinObs(const std::string& name) { return name.size() > 4 ? name.substr(4) : ""; }

class VectorEnv {
 public:
  // `env` is an EnvConfig, `manager` an EnvManagerConfig in text format.
  VectorEnv(const std::string& env, const std::string& manager, int num_envs, bool copies)
      : copies_(copies) {
    EnvConfig env_config;
    EnvManagerConfig manager_config;
    std::vector<std::string> problems = ParseTextConfig(env, "env", &env_config);
    for (std::string& problem : ParseTextConfig(manager, "manager", &manager_config)) {
      problems.push_back(std::move(problem));
    }
    ThrowIfError(ProblemsToStatus(problems));
    if (num_envs < 1) {
      throw py::value_error(absl::StrCat("num_envs is ", num_envs, ", expected at least 1"));
    }
    absl::StatusOr<std::unique_ptr<EnvManager>> made = absl::UnknownError("");
    {
      const py::gil_scoped_release release;
      made = create_envs(env_config, manager_config, num_envs, Clock::Real());
    }
    // The name of an env is an argument, not a file.
    if (absl::IsNotFound(made.status()))
      throw py::value_error(std::string(made.status().message()));
    envs_ = ValueOrThrow(std::move(made));
    name_ = envs_->env_spec().name;
    if (envs_->env_spec().players > 1) {
      throw py::value_error(absl::StrCat(name_, " has ", envs_->env_spec().players,
                                         " players, expected an env with one"));
    }
    size_ = num_envs;
    for (const FieldSpec& field : envs_->env_spec().observation->fields()) {
      obs_keys_.emplace_back(WithinObs(field.name));
    }
  }

  // The fields of an observation, of the action or of the infos: (name, dtype, shape, low, high,
  // categories).
  py::list Fields(const SpecPtr& spec) const {
    py::list fields;
    for (const FieldSpec& field :
         spec == nullptr ? absl::Span<const FieldSpec>() : spec->fields()) {
      py::list categories;
      for (int64_t i = 0; field.is_discrete() && i < field.num_elements(); ++i) {
        categories.append(field.CategoryCount(i));
      }
      fields.append(py::make_tuple(
          field.name, std::string(DTypeName(field.dtype)),
          py::tuple(py::cast(std::vector<int64_t>(field.shape.begin(), field.shape.end()))),
          field.low, field.high, categories));
    }
    return fields;
  }
  py::list ObservationFields() const { return Fields(envs_->env_spec().observation); }
  py::list ActionFields() const { return Fields(envs_->env_spec().action); }
  const std::string& name() const { return name_; }

  // Begins new episodes in all envs. `seeds`: none, or one for each env.
  py::object Reset(const std::vector<uint64_t>& seeds) {
    const Use use(this);
    absl::Status status;
    {
      const py::gil_scoped_release release;
      if (!seeds.empty()) status = envs_->Seed(seeds, /*dynamic=*/true);
      if (status.ok()) status = launched_ ? envs_->Reset() : envs_->Launch();
    }
    ThrowIfError(status);
    launched_ = true;
    return Observations(AllReady().obs, copies_ ? nullptr : &obs_);
  }

  // (obs, reward, terminated, truncated, infos)
  py::tuple Step(const py::object& actions) {
    const Use use(this);
    if (!launched_) {
      throw std::runtime_error(
          absl::StrCat(name_, " has not begun, expected reset() before step()"));
    }
    py::object keep;
    std::byte* column = const_cast<std::byte*>(ReadActions(actions, &keep));
    const ReadyObs ready = AllReady();
    absl::StatusOr<const Timesteps*> stepped = absl::UnknownError("");
    {
      const py::gil_scoped_release release;
      stepped = envs_->Step(ready.env_ids,
                            ColumnsView(envs_->env_spec().action.get(), &column, 0, size_));
    }
    const Timesteps& steps = *ValueOrThrow(std::move(stepped));
    py::object obs = Observations(AllReady().obs, copies_ ? nullptr : &obs_);
    const int64_t components = envs_->env_spec().reward_components();
    py::object reward =
        components > 0
            ? Array(DType::kFloat32, {size_, components}, steps.reward_components.data(), &reward_)
            : Array(DType::kFloat32, {size_}, steps.reward.data(), &reward_);
    py::object terminated = Array(DType::kBool, {size_}, steps.terminated.data(), &terminated_);
    py::object truncated = Array(DType::kBool, {size_}, steps.truncated.data(), &truncated_);
    return py::make_tuple(std::move(obs), std::move(reward), std::move(terminated),
                          std::move(truncated), Infos(steps));
  }

  // An array [height, width, 3] of each env.
  py::list Render() {
    const Use use(this);
    py::list pictures;
    for (int i = 0; i < size_; ++i) {
      const Image image = ValueOrThrow(envs_->Render(i));
      pictures.append(MakeArray(DType::kUint8, {image.height, image.width, 3},
                                reinterpret_cast<const std::byte*>(image.rgb.data()), {}));
    }
    return pictures;
  }

  void Close() {
    if (closed_) return;
    const Use use(this);
    envs_->Close();
    closed_ = true;
  }
  bool closed() const { return closed_; }
  int size() const { return static_cast<int>(size_); }

 private:
  // One call at a time.
  class Use {
   public:
    explicit Use(VectorEnv* envs) : envs_(envs) {
      envs_->process_.Check(envs_->name_);
      if (envs_->closed_) {
        throw std::runtime_error(absl::StrCat(envs_->name_, " is closed: make other envs"));
      }
      if (envs_->used_.exchange(true)) {
        throw std::runtime_error(
            absl::StrCat(envs_->name_, " is used by another thread, expected one call at a time"));
      }
    }
    ~Use() { envs_->used_ = false; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    VectorEnv* const envs_;
  };

  const std::byte* ReadActions(py::handle actions, py::object* keep) const {
    static const std::string name = "actions";
    const FieldSpec& field = envs_->env_spec().action->field(0);
    py::object array = AsArray(actions, {name});
    // Other integers are as good.
    const std::optional<DType> found = ArrayDType(array);
    if (found != field.dtype && field.is_discrete() &&
        py::cast<std::string>(array.attr("dtype").attr("kind")).find_first_of("iu") == 0) {
      array = array.attr("astype")("int64");
    }
    return ReadArray(array, field, size_, {name}, keep);
  }

  ReadyObs AllReady() const {
    const ReadyObs ready = envs_->ready_obs();
    if (static_cast<int64_t>(ready.env_ids.size()) == size_) return ready;
    throw std::runtime_error(absl::StrCat(name_, ": ", ready.env_ids.size(), " of ", size_,
                                          " envs can be stepped, expected all: call reset()"));
  }

  // A new array; without copies always the same one, in `*same`.
  template <typename T>
  py::object Array(DType dtype, Shape shape, const T* data, py::object* same) const {
    const auto* const bytes = reinterpret_cast<const std::byte*>(data);
    if (copies_) return MakeArray(dtype, shape, bytes, {});
    if (!*same) {
      *same = MakeArray(dtype, shape, bytes, {});
    } else {
      OverwriteArray(*same, bytes);
    }
    return *same;
  }

  // An array, or a dict of them. If `same` is set, the arrays in it, which get the values.
  py::object Observations(const ColumnsView& obs, std::vector<py::object>* same) const {
    const Spec& spec = obs.spec();
    if (same != nullptr) same->resize(static_cast<size_t>(spec.size()));
    py::dict dict;
    for (int i = 0; i < spec.size(); ++i) {
      const FieldSpec& field = spec.field(i);
      Shape shape = {obs.rows()};
      shape.insert(shape.end(), field.shape.begin(), field.shape.end());
      py::object array = same == nullptr
                             ? MakeArray(field.dtype, shape, obs.raw_column(i), {})
                             : Array(field.dtype, shape, obs.raw_column(i), &(*same)[i]);
      if (field.name == "obs") return array;
      obs_keys_[i].Set(dict, array);
    }
    return std::move(dict);
  }

  // As Gymnasium has them with AutoresetMode.SAME_STEP.
  py::dict Infos(const Timesteps& steps) const {
    py::dict infos;
    if (steps.info.rows() > 0) {
      for (int i = 0; i < steps.info.spec().size(); ++i) {
        const FieldSpec& field = steps.info.spec().field(i);
        Shape shape = {size_};
        shape.insert(shape.end(), field.shape.begin(), field.shape.end());
        infos[py::str(field.name.substr(field.name.find('/') + 1))] =
            MakeArray(field.dtype, shape, steps.info.raw_column(i), {});
      }
    }
    std::vector<uint8_t> mask(static_cast<size_t>(size_));
    const auto mask_array = [&] {
      return MakeArray(DType::kBool, {size_}, reinterpret_cast<const std::byte*>(mask.data()), {});
    };
    for (const uint8_t abnormal : steps.abnormal) {
      if (abnormal == 0) continue;
      infos["abnormal"] = MakeArray(DType::kBool, {size_},
                                    reinterpret_cast<const std::byte*>(steps.abnormal.data()), {});
      break;
    }
    if (steps.finished.empty()) return infos;
    std::vector<float> returns(static_cast<size_t>(size_));
    std::vector<int64_t> lengths(static_cast<size_t>(size_));
    std::vector<py::object> final_obs(static_cast<size_t>(size_), py::none());
    for (size_t i = 0; i < steps.finished.size(); ++i) {
      const FinishedEpisode& episode = steps.finished[i];
      const auto row = static_cast<size_t>(episode.row);
      mask[row] = 1;
      returns[row] = static_cast<float>(episode.episode_return);
      lengths[row] = episode.length;
      final_obs[row] = FinalObs(steps.final_obs, static_cast<int64_t>(i));
    }
    const py::object finished = mask_array();
    py::dict episode;
    episode["r"] =
        MakeArray(DType::kFloat32, {size_}, reinterpret_cast<const std::byte*>(returns.data()), {});
    episode["l"] =
        MakeArray(DType::kInt64, {size_}, reinterpret_cast<const std::byte*>(lengths.data()), {});
    py::dict final_info;
    final_info["episode"] = std::move(episode);
    final_info["_episode"] = finished;
    infos["final_obs"] = MakeObjectArray(final_obs);
    infos["_final_obs"] = finished;
    infos["final_info"] = std::move(final_info);
    infos["_final_info"] = finished;
    return infos;
  }

  py::object FinalObs(const ColumnsView& obs, int64_t row) const {
    py::dict dict;
    for (int i = 0; i < obs.spec().size(); ++i) {
      const FieldSpec& field = obs.spec().field(i);
      py::object array = MakeArray(field.dtype, field.shape,
                                   obs.raw_column(i) + row * obs.spec().row_bytes(i), {});
      if (field.name == "obs") return array;
      obs_keys_[i].Set(dict, array);
    }
    return std::move(dict);
  }

  const ProcessGuard process_;
  const bool copies_;
  std::unique_ptr<EnvManager> envs_;
  std::string name_;
  int64_t size_ = 0;
  bool launched_ = false;
  bool closed_ = false;
  std::atomic<bool> used_{false};
  std::vector<KeyPath> obs_keys_;  // of a dict of observations
  // What step() returns again and again without copies.
  mutable std::vector<py::object> obs_;
  mutable py::object reward_, terminated_, truncated_;
};

py::dict EntriesOf(const std::string& kind) {
  py::dict entries;
  for (const RegistryEntry& entry : EntriesOfKind(kind)) entries[py::str(entry.name)] = entry.help;
  return entries;
}

}  // namespace

void BindVectorEnv(py::module_& module) {
  using py::arg;
  py::class_<VectorEnv>(module, "VectorEnv")
      .def(py::init<const std::string&, const std::string&, int, bool>(), arg("env"),
           arg("manager"), arg("num_envs"), arg("copy"))
      .def("_observation_fields", &VectorEnv::ObservationFields)
      .def("_action_fields", &VectorEnv::ActionFields)
      .def_property_readonly("_name", &VectorEnv::name)
      .def("_reset", &VectorEnv::Reset, arg("seeds"))
      .def(
          "step", &VectorEnv::Step, arg("actions"),
          "Steps all envs: (obs, rewards, terminations, truncations, infos), one row for each env.")
      .def("render", &VectorEnv::Render, "A picture [height, width, 3] of each env.")
      .def("close", &VectorEnv::Close,
           "Ends all envs. Afterwards each use is a RuntimeError; a further close() does nothing.")
      .def_property_readonly("closed", &VectorEnv::closed)
      .def_property_readonly("num_envs", &VectorEnv::size);
  module.def("entries_of_kind", &EntriesOf, arg("kind"),
             "What can be named in a config: names and what they are.");
}

}  // namespace ding
