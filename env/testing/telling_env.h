// An env for tests that declares info fields of several types and shapes.
//
// Episode with seed s: 3 + s % 3 steps. After step t with action a the observation is {t}, the
// reward 1, and the info is: info/step int64 [] t; info/position float64 [2] {t, a}; info/seen bool
// [] whether a is 1; info/goal int32 [2, 2] {t, 2 t, 3 t, 4 t}.
//
// Threads: as Env.
#ifndef DING_WORKER_ENV_TESTING_TELLING_ENV_H_
#define DING_WORKER_ENV_TESTING_TELLING_ENV_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"

namespace ding {

class TellingEnv : public Env {
 public:
  // Called at the end of each step, which it may change.
  using Alter = std::function<void(int64_t step, StepResult* result)>;

  explicit TellingEnv(Alter alter = nullptr) : alter_(std::move(alter)) {
    spec_.name = "Telling";
    spec_.observation = *MakeSpec({Box("obs", {1})});
    spec_.action = *MakeSpec({Discrete("action", 2)});
    FieldSpec position = Box("info/position", {2});
    position.dtype = DType::kFloat64;
    FieldSpec goal = Box("info/goal", {2, 2});
    goal.dtype = DType::kInt32;
    spec_.info = *MakeSpec(
        {Scalar("info/step", DType::kInt64), position, Scalar("info/seen", DType::kBool), goal});
    spec_.max_episode_steps = 5;
  }

  static absl::StatusOr<std::unique_ptr<Env>> Make() { return std::make_unique<TellingEnv>(); }

  const EnvSpec& spec() const override { return spec_; }

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    length_ = 3 + static_cast<int64_t>(start.seed % 3);
    step_ = 0;
    obs.field<float>(0)[0] = 0;
    return absl::OkStatus();
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    ++step_;
    const auto a = action.scalar<int64_t>(0);
    obs.field<float>(0)[0] = static_cast<float>(step_);
    result->reward = 1;
    result->terminated = step_ == length_;
    InfoRow& info = result->info_row;
    info.field<int64_t>(0)[0] = step_;
    info.field<double>(1)[0] = static_cast<double>(step_);
    info.field<double>(1)[1] = static_cast<double>(a);
    info.field<uint8_t>(2)[0] = a == 1 ? 1 : 0;
    for (int i = 0; i < 4; ++i) info.field<int32_t>(3)[i] = static_cast<int32_t>((i + 1) * step_);
    if (alter_) alter_(step_, result);
    return absl::OkStatus();
  }

  absl::Status SaveState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteInt("step", step_));
    return writer->WriteInt("length", length_);
  }
  absl::Status LoadState(StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(step_, reader->ReadInt("step"));
    DING_ASSIGN_OR_RETURN(length_, reader->ReadInt("length"));
    return absl::OkStatus();
  }

 private:
  EnvSpec spec_;
  const Alter alter_;
  int64_t step_ = 0;
  int64_t length_ = 3;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_TESTING_TELLING_ENV_H_
