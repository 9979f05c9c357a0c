#include "ding_worker/env/testing/scripted_env.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"

namespace ding {
namespace {

using Faults = std::map<int64_t, EnvFault>;

std::optional<EnvFault> FaultOf(const Faults& faults, int64_t call,
                                std::optional<EnvFault> otherwise = std::nullopt) {
  const auto it = faults.find(call);
  return it == faults.end() ? otherwise : it->second;
}

// Executes the faults that end a call.
absl::Status Fail(std::optional<EnvFault> fault) {
  if (fault == EnvFault::kError) return absl::UnavailableError("scripted error");
  if (fault == EnvFault::kThrow) throw std::runtime_error("scripted exception");
  if (fault == EnvFault::kThrowOther) throw 1;
  return absl::OkStatus();
}

void WaitWhile(const std::atomic<bool>& hold) {
  while (hold.load()) absl::SleepFor(absl::Milliseconds(1));
}

class ScriptedEnv : public Env {
 public:
  ScriptedEnv(std::shared_ptr<ScriptedEnvScript> script, EnvSpec spec)
      : script_(std::move(script)), spec_(std::move(spec)) {
    ++script_->log.alive;
  }
  ~ScriptedEnv() override { --script_->log.alive; }

  const EnvSpec& spec() const override { return spec_; }

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    WaitWhile(script_->hold_resets);
    ScriptedEnvLog& log = script_->log;
    ++log.resets;
    log.starts.push_back(start);
    const std::optional<EnvFault> fault =
        FaultOf(script_->on_reset, log.resets, script_->on_every_reset);
    DING_RETURN_IF_ERROR(Fail(fault));
    episode_ = log.resets;
    step_ = 0;
    action_ = -1;
    Observe(fault, obs);
    return absl::OkStatus();
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    WaitWhile(script_->hold_steps);
    ScriptedEnvLog& log = script_->log;
    ++log.steps;
    const std::optional<EnvFault> fault =
        FaultOf(script_->on_step, log.steps, script_->on_every_step);
    DING_RETURN_IF_ERROR(Fail(fault));
    ++step_;
    action_ = action.scalar<int64_t>(0);
    Observe(fault, obs);
    result->reward =
        fault == EnvFault::kInfReward ? std::numeric_limits<float>::infinity() : script_->reward;
    result->abnormal = fault == EnvFault::kAbnormal;
    if (step_ < script_->episode_length) return absl::OkStatus();
    result->terminated = !script_->truncate;
    result->truncated = script_->truncate;
    result->info = script_->info;
    return absl::OkStatus();
  }

  absl::Status SaveState(StateWriter* writer) const override {
    if (!script_->can_save) return Env::SaveState(writer);
    return writer->WriteSpan<int64_t>("state", {episode_, step_, action_});
  }

  absl::Status LoadState(StateReader* reader) override {
    int64_t state[3];
    DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>("state", absl::MakeSpan(state)));
    episode_ = state[0];
    step_ = state[1];
    action_ = state[2];
    return absl::OkStatus();
  }

  // One pixel, whose red value is the number of the step.
  absl::StatusOr<Image> Render() override {
    return Image{1, 1, {static_cast<uint8_t>(step_), 0, 0}};
  }

 private:
  void Observe(std::optional<EnvFault> fault, const RowRef& obs) const {
    const absl::Span<float> values = obs.field<float>(0);
    values[0] = static_cast<float>(episode_);
    values[1] = fault == EnvFault::kNanObservation ? std::numeric_limits<float>::quiet_NaN()
                                                   : static_cast<float>(step_);
    values[2] = static_cast<float>(action_);
  }

  const std::shared_ptr<ScriptedEnvScript> script_;
  const EnvSpec spec_;
  int64_t episode_ = 0;
  int64_t step_ = 0;
  int64_t action_ = -1;
};

absl::StatusOr<std::unique_ptr<Env>> MakeScriptedEnv(std::shared_ptr<ScriptedEnvScript> script) {
  DING_RETURN_IF_ERROR(Fail(FaultOf(script->on_build, ++script->log.built)));
  EnvSpec spec;
  spec.name = "Scripted";
  DING_ASSIGN_OR_RETURN(spec.observation, MakeSpec({Box("obs", {3})}));
  DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({Discrete("action", script->action_count)}));
  spec.max_episode_steps = script->truncate ? script->episode_length : 0;
  return std::make_unique<ScriptedEnv>(std::move(script), std::move(spec));
}

}  // namespace

void ScriptedEnvStarts::push_back(const EpisodeStart& start) {
  Item& item = items_[size_++ % kKept];
  item.seed = start.seed;
  item.num_params = 0;
  for (const NamedValues::Entry& entry : start.params) {
    DING_CHECK(item.num_params < 4) << "more than 4 parameters";
    std::snprintf(item.names[item.num_params], sizeof(item.names[0]), "%s", entry.first.c_str());
    item.values[item.num_params++] = entry.second;
  }
}

EpisodeStart ScriptedEnvStarts::operator[](int64_t index) const {
  DING_CHECK(index >= 0 && index < size_ && index >= size_ - kKept) << index;
  const Item& item = items_[index % kKept];
  EpisodeStart start;
  start.seed = item.seed;
  for (int i = 0; i < item.num_params; ++i) start.params.Set(item.names[i], item.values[i]);
  return start;
}

// The part that is in memory shared with forked processes.
struct ScriptedEnvScript::Shared {
  static Shared* New() {
    void* const memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    DING_CHECK(memory != MAP_FAILED) << std::strerror(errno);
    return new (memory) Shared();
  }

  ScriptedEnvLog log;
  std::atomic<bool> hold_steps{false};
  std::atomic<bool> hold_resets{false};
};

ScriptedEnvScript::ScriptedEnvScript() : ScriptedEnvScript(Shared::New()) {}

ScriptedEnvScript::ScriptedEnvScript(Shared* shared)
    : log(shared->log),
      hold_steps(shared->hold_steps),
      hold_resets(shared->hold_resets),
      shared_(shared) {}

ScriptedEnvScript::ScriptedEnvScript(const ScriptedEnvScript& other) : ScriptedEnvScript() {
  static_cast<ScriptedEnvOrders&>(*this) = other;
  log = other.log;
}

ScriptedEnvScript::~ScriptedEnvScript() { munmap(shared_, sizeof(Shared)); }

EnvFactory ScriptedEnvFactory(std::shared_ptr<ScriptedEnvScript> script) {
  return [script = std::move(script)] { return MakeScriptedEnv(script); };
}

}  // namespace ding
