// A learn mode for tests, with one parameter, which grows by 1 with every optimizer step; and a
// hook that calls a function.
#ifndef DING_WORKER_LEARNER_TESTING_FAKE_LEARN_MODE_H_
#define DING_WORKER_LEARNER_TESTING_FAKE_LEARN_MODE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class FakeLearnMode : public LearnMode {
 public:
  LearnAttributes attributes() const override { return {}; }

  absl::Status Forward(const Batch& data, const NamedValues& /*settings*/,
                       std::vector<LearnStep>* steps) override {
    if (!next_error.ok()) return std::exchange(next_error, absl::OkStatus());
    steps->resize(static_cast<size_t>(steps_per_batch));
    for (LearnStep& step : *steps) {
      step.Clear();
      weight += 1;
      step.scalars.Set("total_loss", 1 / weight);
      step.scalars.Set("noreduce_weight", weight);
    }
    if (report_priority) {
      steps->back().priority.assign(static_cast<size_t>(priorities.value_or(data.rows())), 0.5f);
    }
    return absl::OkStatus();
  }

  std::vector<std::string> monitor_vars() const override { return {"total_loss", "never"}; }
  std::string info() const override { return "fake"; }

  absl::Status SaveModel(StateWriter* writer) const override {
    return writer->WriteDouble("weight", weight);
  }
  absl::Status LoadModel(StateReader* reader) override {
    absl::StatusOr<double> loaded = reader->ReadDouble("weight");
    if (loaded.ok()) weight = *loaded;
    return loaded.status();
  }
  absl::Status SaveTrainState(StateWriter* writer) const override {
    return writer->WriteInt("momentum", 7);
  }
  absl::Status LoadTrainState(StateReader* reader) override {
    return reader->ReadInt("momentum").status();
  }

  double weight = 0;
  int steps_per_batch = 1;
  bool report_priority = false;
  std::optional<int64_t> priorities;  // how many; not set: one per row
  absl::Status next_error;            // returned by the next Forward()
};

class FunctionHook : public LearnerHook {
 public:
  using Function = std::function<absl::Status(LearnerView*)>;
  FunctionHook(HookPosition position, Function function, int priority = 50,
               std::string name = "function")
      : LearnerHook(std::move(name), priority, position), function_(std::move(function)) {}
  absl::Status Call(LearnerView* learner) override { return function_(learner); }

 private:
  const Function function_;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_TESTING_FAKE_LEARN_MODE_H_
