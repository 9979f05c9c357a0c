// What the coordinator does with options, numbers, calls and parts that nobody should give it. Run
// it with AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer, too.
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/state/learning_rounds.h"
#include "ding_worker/coordinator/testing/coordinator_calls.h"
#include "ding_worker/coordinator/testing/coordinator_fixture.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

constexpr int kMinInt = std::numeric_limits<int>::min();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr absl::Duration kLong = absl::Minutes(1);
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kInternal = absl::StatusCode::kInternal;

// A SoloCommander that throws in one function.
class ThrowingCommander : public SoloCommander {
 public:
  ThrowingCommander(const SoloCommander& solo, std::string where)
      : SoloCommander(solo), where_(std::move(where)) {}

  std::optional<CollectorTask> GetCollectorTask() override {
    Visit("GetCollectorTask");
    return SoloCommander::GetCollectorTask();
  }
  std::optional<LearnerTask> GetLearnerTask() override {
    Visit("GetLearnerTask");
    return SoloCommander::GetLearnerTask();
  }
  absl::Duration AskAgainAfter() const override {
    Visit("AskAgainAfter");
    return SoloCommander::AskAgainAfter();
  }
  absl::Status status() const override {
    Visit("status");
    return where_ == "failed" ? absl::InternalError("no idea") : absl::OkStatus();
  }
  bool JudgeCollectorFinish(const CollectorFinished& info) const override {
    Visit("JudgeCollectorFinish");
    return SoloCommander::JudgeCollectorFinish(info);
  }
  bool JudgeLearnerFinish(const LearnerInfo& info) const override {
    Visit("JudgeLearnerFinish");
    return SoloCommander::JudgeLearnerFinish(info);
  }
  bool FinishCollectorTask(const CollectorTask& task, const CollectorFinished& info) override {
    Visit("FinishCollectorTask");
    return SoloCommander::FinishCollectorTask(task, info);
  }
  std::string FinishLearnerTask(const LearnerTask& task) override {
    const std::string buffer_id = SoloCommander::FinishLearnerTask(task);
    return where_ == "names another buffer" ? "buffer_7" : buffer_id;
  }
  void NotifyFailCollectorTask(const CollectorTask& task) override {
    Visit("NotifyFailCollectorTask");
    SoloCommander::NotifyFailCollectorTask(task);
  }
  void UpdateLearnerInfo(const LearnerTask& task, const LearnerInfo& info) override {
    Visit("UpdateLearnerInfo");
    SoloCommander::UpdateLearnerInfo(task, info);
  }
  void PolicyPublished(const PolicyVersion& version) override {
    Visit("PolicyPublished");
    SoloCommander::PolicyPublished(version);
  }
  void IncreaseCollectorTaskSpace() override {
    Visit("IncreaseCollectorTaskSpace");
    SoloCommander::IncreaseCollectorTaskSpace();
  }
  std::optional<double> last_eval_value() const override {
    Visit("last_eval_value");
    return SoloCommander::last_eval_value();
  }
  void AddStatus(RunStatus* status) const override {
    Visit("AddStatus");
    SoloCommander::AddStatus(status);
  }

 private:
  void Visit(absl::string_view where) const {
    if (where == where_) throw std::runtime_error("no idea");
  }

  const std::string where_;
};

// A buffer that throws in one function.
class ThrowingBuffer : public IBuffer {
 public:
  ThrowingBuffer(std::unique_ptr<IBuffer> inner, std::string where)
      : inner_(std::move(inner)), where_(std::move(where)) {}

  absl::Status Push(const SegmentBatch& data, int64_t step) override {
    Visit("Push");
    return inner_->Push(data, step);
  }
  absl::StatusOr<Batch> Sample(int64_t size, int64_t iter, const SampleOptions& options) override {
    Visit("Sample");
    return inner_->Sample(size, iter, options);
  }
  absl::Status Update(const PriorityInfo& info) override { return inner_->Update(info); }
  void Clear() override {
    Visit("Clear");
    inner_->Clear();
  }
  int64_t count() const override {
    Visit("count");
    return inner_->count();
  }
  int64_t push_count() const override { return inner_->push_count(); }
  StateSnapshot Snapshot() const override { return inner_->Snapshot(); }
  absl::Status LoadState(StateReader* reader) override { return inner_->LoadState(reader); }

 private:
  void Visit(absl::string_view where) const {
    if (where == where_) throw std::runtime_error("no rows");
  }

  const std::unique_ptr<IBuffer> inner_;
  const std::string where_;
};

class CoordinatorMisuse : public CoordinatorTest {
 protected:
  Coordinator::Parts MakeParts(const std::string& throws_in = "nowhere") {
    const auto solo = SoloCommander::Create(commander_options_, nullptr, deps_).value();
    Coordinator::Parts parts;
    parts.commander = std::make_unique<ThrowingCommander>(*solo, throws_in);
    parts.make_buffer = make_buffer_;
    parts.delete_key = store_.deleter();
    parts.sender = &sender_;
    return parts;
  }
  absl::Status Create(const Coordinator::Options& options) {
    return Coordinator::Create(options, MakeParts(), deps_).status();
  }
  // Lets workers do what calls each function of a commander. Returns the end of the run, which may
  // have ended early.
  absl::Status RunWith(Coordinator::Parts parts) {
    coordinator_ = Coordinator::Create(options_, std::move(parts), deps_).value();
    coordinator_->Start();
    Join(kLearner, Hello::LEARNER);
    const LearnerTask learner = TakeLearnerTask(kLearner);
    HandleNow(coordinator_.get(), kLearner, Started(learner.task_id())).IgnoreError();
    HandleNow(coordinator_.get(), kLearner, Version(learner.policy_id(), 1)).IgnoreError();
    HandleNow(coordinator_.get(), kLearner, Info(learner.task_id(), 1)).IgnoreError();
    Join(kCollector, Hello::COLLECTOR);
    const CollectorTask evaluation = TakeCollectorTask(kCollector);
    HandleNow(coordinator_.get(), kCollector, Finished(evaluation.task_id(), 1)).IgnoreError();
    const CollectorTask task = TakeCollectorTask(kCollector);
    HandleNow(coordinator_.get(), kCollector,
              Data(task.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 0), 4)))
        .IgnoreError();
    HandleNow(coordinator_.get(), kLearner, Demand(learner.task_id(), 1, 2)).IgnoreError();
    coordinator_->status();
    Join(kOther, Hello::COLLECTOR);
    Lose(kOther);
    Lose(kCollector);
    HandleNow(coordinator_.get(), 77, Info("", 1)).IgnoreError();
    Advance(absl::Seconds(100));  // Tasks that nobody took expire.
    // The timer's thread asks for it, and ends the run.
    if (timer_ends_) {
      EXPECT_THAT(coordinator_->WaitUntilDone(kLong), StatusIs(kInternal));
    }
    coordinator_->RequestEnd("the test is over");
    const absl::Status end = coordinator_->WaitUntilDone(kLong);
    EXPECT_THAT(coordinator_->Close("over"), IsOk());
    return end;
  }

  bool timer_ends_ = false;
};

TEST_F(CoordinatorMisuse, Create_OptionsOutOfRange_IsRefused) {
  EXPECT_THAT(Create({}), IsOk());
  using Options = Coordinator::Options;
  const auto refuses = [this](auto values, auto... members) {
    for (const auto value : values) {
      for (auto Options::*const member : {members...}) {
        Options options;
        options.*member = value;
        EXPECT_THAT(Create(options), StatusIs(kInvalid)) << value;
      }
    }
  };
  using Ints = std::vector<int>;
  using Int64s = std::vector<int64_t>;
  refuses(Ints{-1, kMinInt}, &Options::collectors, &Options::wanted_collectors,
          &Options::max_collectors, &Options::max_task_failures);
  refuses(Int64s{-1, kMin}, &Options::max_env_step, &Options::max_train_iter);
  refuses(Int64s{-1, kMin}, &Options::random_collect_size);
  refuses(Int64s{-1, kMin, kMax}, &Options::first_env_step);
  refuses(std::vector<absl::Duration>{absl::ZeroDuration(), absl::Seconds(-1),
                                      -absl::InfiniteDuration()},
          &Options::collector_task_timeout, &Options::learner_task_timeout,
          &Options::stall_timeout);
  refuses(std::vector<double>{kNan}, &Options::min_return, &Options::max_return);
  for (const int64_t number : {int64_t{-1}, kMin, kMax}) {
    Options options;
    for (const LearningRounds& rounds : {LearningRounds{number, 1, 1}, LearningRounds{1, number, 1},
                                         LearningRounds{1, 1, number}}) {
      options.rounds = rounds;
      EXPECT_THAT(Create(options), StatusIs(kInvalid));
    }
  }
  Options options;
  options.lockstep_tasks = 1;
  EXPECT_THAT(Create(options), IsOk());
  options.replay_ratio.emplace();
  EXPECT_THAT(Create(options), StatusIs(kInvalid, HasSubstr("expected one of them")));
  EXPECT_THAT(Coordinator::Create({}, {}, deps_), StatusIs(kInvalid, HasSubstr("no commander")));
}

TEST_F(CoordinatorMisuse, LargestOptions_RunToTheEnd) {
  options_.collector_task_timeout = absl::InfiniteDuration();
  options_.learner_task_timeout = absl::InfiniteDuration();
  options_.stall_timeout = absl::InfiniteDuration();
  options_.max_time = absl::InfiniteDuration();
  options_.max_env_step = kMax;
  options_.max_train_iter = kMax;
  options_.max_collectors = std::numeric_limits<int>::max();
  options_.random_collect_size = kMax;
  options_.replay_ratio.emplace();
  options_.replay_ratio->error_buffer = kMax;
  options_.replay_ratio->min_size = kMax;
  EXPECT_THAT(RunWith(MakeParts()), IsOk());
}

TEST_F(CoordinatorMisuse, CommanderThatThrows_EndsTheRunWithItsError) {
  EXPECT_THAT(RunWith(MakeParts()), IsOk());
  for (const std::string where :
       {"GetCollectorTask", "GetLearnerTask", "AskAgainAfter", "status", "JudgeCollectorFinish",
        "JudgeLearnerFinish", "FinishCollectorTask", "NotifyFailCollectorTask", "UpdateLearnerInfo",
        "PolicyPublished", "IncreaseCollectorTaskSpace", "last_eval_value", "AddStatus"}) {
    timer_ends_ = where == "AskAgainAfter";
    EXPECT_THAT(RunWith(MakeParts(where)),
                StatusIs(kInternal, HasSubstr("the commander threw an exception: no idea")))
        << where;
  }
  timer_ends_ = false;
  EXPECT_THAT(RunWith(MakeParts("failed")), StatusIs(kInternal, "no idea"));
}

TEST_F(CoordinatorMisuse, FinishLearnerTask_AnotherBuffer_EndsTheRun) {
  coordinator_ = Coordinator::Create(options_, MakeParts("names another buffer"), deps_).value();
  coordinator_->Start();
  Join(kLearner, Hello::LEARNER);
  Handle(kLearner, Info(TakeLearnerTask(kLearner).task_id(), 1, /*done=*/true));
  EXPECT_THAT(coordinator_->WaitUntilDone(kLong),
              StatusIs(kInternal, HasSubstr("FinishLearnerTask() returned the buffer \"buffer_7\" "
                                            "for learner_task_0, expected \"buffer_0\"")));
}

TEST_F(CoordinatorMisuse, BufferThatThrowsOrIsNone_EndsTheRunWithItsError) {
  for (const std::string where : {"Push", "Sample"}) {
    Coordinator::Parts parts = MakeParts();
    parts.make_buffer = [this, where](
                            const std::string& id, absl::Span<const std::string> /*settings*/,
                            OnRemoved on_removed) -> absl::StatusOr<std::unique_ptr<IBuffer>> {
      return std::make_unique<ThrowingBuffer>(make_buffer_(id, {}, std::move(on_removed)).value(),
                                              where);
    };
    EXPECT_THAT(RunWith(std::move(parts)),
                StatusIs(kInternal, HasSubstr("the buffer threw an exception: no rows")))
        << where;
  }
  Coordinator::Parts parts = MakeParts();
  parts.make_buffer = [](const std::string&, absl::Span<const std::string> /*settings*/,
                         OnRemoved) { return nullptr; };
  EXPECT_THAT(RunWith(std::move(parts)), StatusIs(kInternal, HasSubstr("returned none")));
  parts = MakeParts();
  parts.make_buffer = [](const std::string&, absl::Span<const std::string> /*settings*/,
                         OnRemoved) -> absl::StatusOr<std::unique_ptr<IBuffer>> {
    throw std::runtime_error("no memory");
  };
  EXPECT_THAT(RunWith(std::move(parts)), StatusIs(kInternal, HasSubstr("no memory")));
  // Nothing is pushed or drawn after these calls, so the run ends as it should.
  for (const std::string where : {"count", "Clear"}) {
    parts = MakeParts();
    parts.make_buffer = [this, where](
                            const std::string& id, absl::Span<const std::string> /*settings*/,
                            OnRemoved on_removed) -> absl::StatusOr<std::unique_ptr<IBuffer>> {
      return std::make_unique<ThrowingBuffer>(make_buffer_(id, {}, std::move(on_removed)).value(),
                                              where);
    };
    EXPECT_THAT(RunWith(std::move(parts)), IsOk()) << where;
  }
}

TEST_F(CoordinatorMisuse, NumbersNearTheEndsOfTheirType_AreRefused) {
  StartTraining();
  for (const int64_t number : {int64_t{-1}, kMin, kMax}) {
    EXPECT_THAT(HandleNow(coordinator_.get(), kLearner, Info(learner_.task_id(), number)),
                StatusIs(kInvalid));
    EXPECT_THAT(HandleNow(coordinator_.get(), kLearner, Demand(learner_.task_id(), 1, number)),
                StatusIs(kInvalid));
    EXPECT_THAT(
        HandleNow(coordinator_.get(), kCollector, Finished(collector_.task_id(), 1, number)),
        StatusIs(kInvalid));
    EXPECT_THAT(
        HandleNow(coordinator_.get(), kCollector,
                  Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 0), 1), number)),
        StatusIs(kInvalid));
    EXPECT_THAT(HandleNow(coordinator_.get(), kLearner,
                          Version(learner_.policy_id(), static_cast<uint64_t>(number))),
                StatusIs(kInvalid));
  }
  for (const uint32_t worker : {0u, 77u, ~0u}) {
    EXPECT_THAT(HandleNow(coordinator_.get(), worker, Started("")),
                StatusIs(absl::StatusCode::kNotFound));
    Lose(worker);
  }
  EXPECT_THAT(HandleNow(coordinator_.get(), kLearner, WorkerMessage()), StatusIs(kInvalid));
  for (const int32_t by : {kMinInt, -1, 0, std::numeric_limits<int>::max()}) {
    Grow(by);
    Shrink(by);
  }
  Drain("");
}

TEST_F(CoordinatorMisuse, CallsAfterTheEndAndAfterClose_AreHarmless) {
  StartTraining();
  for (const absl::Duration timeout : {absl::ZeroDuration(), -absl::InfiniteDuration()}) {
    EXPECT_THAT(coordinator_->WaitUntilDone(timeout),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
  }
  coordinator_->RequestEnd("");
  coordinator_->RequestEnd("again");
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::InfiniteDuration()), IsOk());
  const auto call_all = [this] {
    HandleNow(coordinator_.get(), kLearner, Info(learner_.task_id(), 1)).IgnoreError();
    HandleNow(coordinator_.get(), kLearner, Demand(learner_.task_id(), 1, 1)).IgnoreError();
    HandleNow(coordinator_.get(), kCollector, Finished(collector_.task_id(), 1)).IgnoreError();
    AdmitNow(coordinator_.get(), HelloOf(Hello::COLLECTOR)).IgnoreError();
    Join(9, Hello::COLLECTOR);
    Lose(9);
    Grow(1);
    coordinator_->status();
    coordinator_->counters();
    coordinator_->KeepData();
    coordinator_->RequestEnd("once more");
  };
  call_all();
  EXPECT_THAT(coordinator_->CloseJournal(), IsOk());
  call_all();
  EXPECT_THAT(coordinator_->Close("over"), IsOk());
  EXPECT_THAT(coordinator_->Close("over again"), IsOk());
  call_all();
}

}  // namespace
}  // namespace ding
