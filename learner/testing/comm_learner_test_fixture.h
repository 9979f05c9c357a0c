// A learner worker with a fake coordinator and a store that fails as the test says, for tests of
// the worker.
//
// Threads: as the test; the worker runs on a thread of its own.
#ifndef DING_WORKER_LEARNER_TESTING_COMM_LEARNER_TEST_FIXTURE_H_
#define DING_WORKER_LEARNER_TESTING_COMM_LEARNER_TEST_FIXTURE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/segment_wire.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/testing/fake_coordinator.h"
#include "ding_worker/learner/base_learner.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/learner/comm/task_learner.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/hooks.h"
#include "ding_worker/learner/testing/fake_learn_mode.h"
#include "gtest/gtest.h"

namespace ding {

inline constexpr int64_t kChunk = 1;

// A store whose Put() of a policy fails as `on_put` says. `on_put` gets the number of the call,
// from 1.
class FlakyStore : public MemStore {
 public:
  absl::Status Put(absl::string_view key, absl::Span<const absl::string_view> pieces) override {
    const int put = ++stored_;
    const absl::Status status = on_put == nullptr ? absl::OkStatus() : on_put(put);
    return status.ok() ? MemStore::Put(key, pieces) : status;
  }

  absl::Status Get(absl::string_view key, std::string* value) override {
    std::function<absl::Status(absl::string_view)> get;
    {
      MutexLock lock(&mutex_);
      if (on_get_ != nullptr) get = on_get_;
    }
    const absl::Status status = get == nullptr ? absl::OkStatus() : get(key);
    return status.ok() ? MemStore::Get(key, value) : status;
  }
  void set_on_get(std::function<absl::Status(absl::string_view)> on_get) {
    MutexLock lock(&mutex_);
    on_get_ = std::move(on_get);
  }
  int stored() const { return stored_.load(); }

  std::function<absl::Status(int)> on_put;  // set before use

 private:
  std::atomic<int> stored_{0};
  Mutex mutex_;
  std::function<absl::Status(absl::string_view)> on_get_ ABSL_GUARDED_BY(mutex_);
};

inline SegmentBatch OneRow() {
  const SpecPtr rows =
      MakeSpec({Box("obs", {}), Discrete("action", 9), Scalar("reward", DType::kFloat32)}).value();
  BatchBuilder builder = BatchBuilder::Create(rows, 1).value();
  builder.column<float>(0)[0] = 0;
  builder.column<int64_t>(1)[0] = 0;
  builder.column<float>(2)[0] = 1;
  BatchBuilder obs = BatchBuilder::Create(MakeSpec({Box("obs", {})}).value(), 1).value();
  obs.column<float>(0)[0] = 1;
  SegmentBatch data;
  data.rows = std::move(builder).Seal(1);
  data.final_obs = std::move(obs).Seal(1);
  data.segments = {{0, 0, 0, 1, SegmentEnd::kTerminated}};
  return data;
}

// A drawn batch of one row.
inline std::string Items(int64_t chunk) {
  const SpecPtr spec =
      MakeSpec({Scalar(kColumnChunk, DType::kInt64), Scalar(kColumnRow, DType::kInt64),
                Scalar(kColumnLength, DType::kInt64), Scalar(kColumnReplayUniqueId, DType::kInt64),
                Scalar(kColumnReplayBufferIdx, DType::kInt64)})
          .value();
  BatchBuilder builder = BatchBuilder::Create(spec, 1).value();
  builder.column<int64_t>(0)[0] = chunk;
  builder.column<int64_t>(1)[0] = 0;
  builder.column<int64_t>(2)[0] = 1;
  builder.column<int64_t>(3)[0] = 41;
  builder.column<int64_t>(4)[0] = 3;
  return EncodedBatch(std::move(builder).Seal(1)).ToString();
}

class FakeTask : public TaskLearner {
 public:
  FakeTask(int64_t train_iterations, FakeLearnMode* mode, std::vector<std::string>* checkpoints) {
    BaseLearner::Options options;
    options.train_iterations = train_iterations;
    options.log_policy = false;
    LearnerHooks hooks;
    add_learner_hook(&hooks, std::make_shared<SaveCkptHook>("save_ckpt_after_run", 20,
                                                            HookPosition::kAfterRun, 1));
    learner_ = BaseLearner::Create(options, mode, std::move(hooks), {}).value();
    learner_->set_checkpoint_fn([checkpoints](absl::string_view name) {
      checkpoints->emplace_back(name);
      return absl::OkStatus();
    });
  }
  ILearner* learner() override { return learner_.get(); }
  NamedValues LearnSettings(int64_t /*train_iter*/, int64_t /*envstep*/) override { return {}; }

 private:
  std::unique_ptr<ILearner> learner_;
};

// A learner worker, whose coordinator is the test.
class BaseCommLearnerTest : public testing::Test {
 protected:
  BaseCommLearnerTest() {
    options_.batch_size = 1;
    options_.prefetch_batches = 2;
    options_.send_policy_freq = 2;
    mode_.report_priority = true;
  }

  void Run() {
    Run([this](const LearnerTask&, GroupMember*) {
      return std::make_unique<FakeTask>(train_iterations_, &mode_, &checkpoints_);
    });
  }
  void Run(TaskLearnerFactory factory) {
    // Not by way of the store's failures.
    ASSERT_THAT(store_.MemStore::Put(ChunkKey(kChunk), EncodedSegments(OneRow()).pieces()), IsOk());
    learner_ =
        std::make_unique<BaseCommLearner>(options_, worker_.get(), &store_, std::move(factory));
    running_ = std::thread([this] { end_ = learner_->Run(); });
  }
  absl::StatusOr<EndRun> End() {
    if (running_.joinable()) running_.join();
    return end_;
  }
  void TearDown() override {
    coordinator_.session()->Close("the test is over");
    End().IgnoreError();
  }

  // The messages of a learner, and the answers that it got: batches of `chunk`.
  struct Heard {
    std::vector<LearnerInfo> infos;
    std::vector<uint64_t> versions;
    std::vector<std::string> stalls;
    WorkerMessage end;
  };
  Heard ServeUntil(const std::function<bool(const WorkerMessage&)>& end, int64_t chunk = kChunk) {
    Heard heard;
    heard.end = coordinator_.ReceiveUntil([&](const WorkerMessage& message) {
      if (message.has_learner_demand()) Answer(message.learner_demand(), chunk);
      if (message.has_policy_version())
        heard.versions.push_back(message.policy_version().version());
      if (message.has_learner_info()) {
        const LearnerInfo& info = message.learner_info();
        info.stalled().empty() ? heard.infos.push_back(info)
                               : heard.stalls.push_back(info.stalled());
      }
      return end(message);
    });
    return heard;
  }
  Heard ServeTask(int64_t chunk = kChunk) {
    return ServeUntil(
        [](const WorkerMessage& message) {
          return message.has_task_failed() || message.learner_info().learner_done();
        },
        chunk);
  }
  void Answer(const LearnerDemand& demand, int64_t chunk) {
    CoordinatorMessage message;
    message.mutable_learner_data()->set_task_id(demand.task_id());
    message.mutable_learner_data()->set_sequence(demand.sequence());
    for (int i = 0; i < demand.batches(); ++i) {
      message.mutable_learner_data()->add_items(Items(chunk));
    }
    coordinator_.Send(message);
  }
  double PublishedWeight(uint64_t version) {
    std::string bytes;
    EXPECT_THAT(store_.Get(PolicyKey("policy_0", version, FakeCoordinator::kWorker), &bytes),
                IsOk());
    return DecodeState(bytes, "policy").value()->ReadDouble("weight").value();
  }

  CommLearnerOptions options_;
  int64_t train_iterations_ = 5;
  FakeLearnMode mode_;
  std::vector<std::string> checkpoints_;
  FlakyStore store_;
  FakeCoordinator coordinator_;
  const std::unique_ptr<WorkerSession> worker_ = coordinator_.Join();
  std::unique_ptr<BaseCommLearner> learner_;
  std::thread running_;
  absl::StatusOr<EndRun> end_ = absl::UnknownError("runs");
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_TESTING_COMM_LEARNER_TEST_FIXTURE_H_
