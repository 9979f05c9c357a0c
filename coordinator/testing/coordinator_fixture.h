// A test fixture with a coordinator. The test plays its workers: it passes their messages to
// Handle(), and reads the coordinator's messages from a sender that keeps them.
//
// Threads: the fixture belongs to the thread of the test. FakeSender and FakeStore are thread-safe.
#ifndef DING_WORKER_COORDINATOR_TESTING_COORDINATOR_FIXTURE_H_
#define DING_WORKER_COORDINATOR_TESTING_COORDINATOR_FIXTURE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/testing/coordinator_calls.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/learner/stopper_registry.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/used_data_remover.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {

inline constexpr uint32_t kLearner = 1;
inline constexpr uint32_t kCollector = 2;
inline constexpr uint32_t kOther = 3;  // another collector
inline constexpr uint32_t kOperator = 1000;

// Keeps the messages that the coordinator sends.
class FakeSender : public CoordinatorSender {
 public:
  void Send(uint32_t worker, const CoordinatorMessage& message) override {
    MutexLock lock(&mutex_);
    sent_[worker].push_back(message);
  }
  // Returns the messages that were sent to the worker since the last call.
  std::vector<CoordinatorMessage> Take(uint32_t worker) {
    MutexLock lock(&mutex_);
    return std::exchange(sent_[worker], {});
  }

 private:
  Mutex mutex_;
  std::map<uint32_t, std::vector<CoordinatorMessage>> sent_ ABSL_GUARDED_BY(mutex_);
};

// A store that only notes which keys were deleted.
class FakeStore {
 public:
  DataDeleter deleter() {
    return [this](const std::string& key) {
      MutexLock lock(&mutex_);
      deleted_.push_back(key);
      return absl::OkStatus();
    };
  }
  std::vector<std::string> deleted() const {
    MutexLock lock(&mutex_);
    return deleted_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::string> deleted_ ABSL_GUARDED_BY(mutex_);
};

// The following make messages of workers.

inline int64_t Chunk(uint32_t worker, uint32_t number) { return ChunkNumber(worker, number); }

inline WorkerMessage Data(const std::string& task_id, uint64_t sequence, const SegmentBatch& items,
                          int64_t cur_step = 0) {
  WorkerMessage message;
  CollectorData* const data = message.mutable_collector_data();
  data->set_task_id(task_id);
  data->set_sequence(sequence);
  data->set_items(EncodedBatch(items.rows).ToString());
  data->mutable_progress()->set_cur_step(cur_step);
  return message;
}

inline WorkerMessage Demand(const std::string& task_id, uint64_t sequence, int64_t batch_size,
                            uint64_t read = 0, int batches = 1) {
  WorkerMessage message;
  LearnerDemand* const demand = message.mutable_learner_demand();
  demand->set_task_id(task_id);
  demand->set_sequence(sequence);
  demand->set_batch_size(batch_size);
  demand->set_batches(batches);
  demand->set_read(read);
  return message;
}

inline WorkerMessage Info(const std::string& task_id, int64_t step, bool done = false) {
  WorkerMessage message;
  message.mutable_learner_info()->set_task_id(task_id);
  message.mutable_learner_info()->set_learner_step(step);
  message.mutable_learner_info()->set_learner_done(done);
  return message;
}

inline WorkerMessage Failed(const std::string& task_id, absl::StatusCode code) {
  WorkerMessage message;
  message.mutable_task_failed()->set_task_id(task_id);
  message.mutable_task_failed()->set_code(static_cast<int>(code));
  message.mutable_task_failed()->set_message("env 3 died");
  return message;
}

inline WorkerMessage Started(const std::string& task_id) {
  WorkerMessage message;
  message.mutable_task_started()->set_task_id(task_id);
  return message;
}

inline WorkerMessage Version(const std::string& policy_id, uint64_t version,
                             uint32_t worker = kLearner) {
  WorkerMessage message;
  message.mutable_policy_version()->set_policy_id(policy_id);
  message.mutable_policy_version()->set_version(version);
  message.mutable_policy_version()->set_key(PolicyKey(policy_id, version, worker));
  return message;
}

inline WorkerMessage Finished(const std::string& task_id, double mean_return, int64_t steps = 10,
                              int64_t train_iter = 0) {
  WorkerMessage message;
  CollectorFinished* const info = message.mutable_collector_finished();
  info->set_task_id(task_id);
  info->set_collector_done(true);
  info->set_train_iter(train_iter);
  info->set_step_count(steps);
  info->add_episode_return(mean_return);
  return message;
}

inline Hello HelloOf(Hello::Role role, double cpus = 1) {
  Hello hello;
  hello.set_role(role);
  hello.set_name(absl::StrCat(Hello::Role_Name(role), "-x"));
  hello.mutable_resources()->set_cpus(cpus);
  return hello;
}

// A SoloCommander that keeps version 2 of the policy, and whose first collecting task plays against
// version 1.
class KeepingCommander : public SoloCommander {
 public:
  explicit KeepingCommander(const SoloCommander& solo) : SoloCommander(solo) {}

  std::optional<CollectorTask> GetCollectorTask() override {
    std::optional<CollectorTask> task = SoloCommander::GetCollectorTask();
    if (!task.has_value() || task->eval_flag()) return task;
    task->add_player()->set_update_policy(true);
    if (task->number() == 0) *task->add_player()->mutable_policy() = first_;
    return task;
  }
  void PolicyPublished(const PolicyVersion& version) override {
    if (version.version() == 1) first_ = version;
  }
  bool KeepsPolicy(const PolicyVersion& version) const override { return version.version() == 2; }

 private:
  PolicyVersion first_;
};

// A SoloCommander that adds settings to its collecting tasks.
class SettingCommander : public SoloCommander {
 public:
  SettingCommander(const SoloCommander& solo, std::function<void(CollectorTask*)> prepare)
      : SoloCommander(solo), prepare_(std::move(prepare)) {}

  std::optional<CollectorTask> GetCollectorTask() override {
    std::optional<CollectorTask> task = SoloCommander::GetCollectorTask();
    if (task.has_value()) prepare_(&*task);
    return task;
  }

 private:
  const std::function<void(CollectorTask*)> prepare_;
};

// A test sets the members that it wants to be different, and then calls Start() or StartTraining().
class CoordinatorTest : public testing::Test {
 protected:
  CoordinatorTest() {
    deps_.clock = &clock_;
    commander_options_.eval_interval = 1000;
    commander_options_.stop_value = 100;
    options_.run = "run-7";
    make_buffer_ = [this](const std::string& id, absl::Span<const std::string> /*settings*/,
                          OnRemoved on_removed) {
      buffers_made_.push_back(id);
      NaiveReplayBuffer::Options options;
      options.capacity_rows = capacity_;
      options.on_removed = std::move(on_removed);
      return NaiveReplayBuffer::Create(options);
    };
  }

  void Start() { Start(&sender_); }
  void Start(CoordinatorSender* sender) {
    auto commander = SoloCommander::Create(commander_options_, nullptr, deps_).value();
    if (keeps_policies_) commander = std::make_unique<KeepingCommander>(*commander);
    if (prepare_collect_) {
      commander = std::make_unique<SettingCommander>(*commander, prepare_collect_);
    }
    commander_ = commander.get();
    Coordinator::Parts parts;
    parts.commander = std::move(commander);
    parts.make_buffer = make_buffer_;
    parts.check_settings = check_settings_;
    parts.journal = journal_.get();
    parts.delete_key = store_.deleter();
    parts.sender = sender;
    parts.items = items_;
    parts.stoppers = std::move(stoppers_);
    coordinator_ = Coordinator::Create(options_, std::move(parts), deps_).value();
    coordinator_->Start();
  }
  // Starts the coordinator, lets a learner and a collector join, and finishes the first evaluation:
  // kLearner then has the task learner_, and kCollector the collecting task collector_.
  void StartTraining() {
    Start();
    Join(kLearner, Hello::LEARNER);
    learner_ = TakeLearnerTask(kLearner);
    Handle(kLearner, Started(learner_.task_id()));
    Join(kCollector, Hello::COLLECTOR);
    const CollectorTask evaluation = TakeCollectorTask(kCollector);
    ASSERT_TRUE(evaluation.eval_flag());
    Handle(kCollector, Finished(evaluation.task_id(), 1));
    collector_ = TakeCollectorTask(kCollector);
    ASSERT_FALSE(collector_.eval_flag());
  }
  void Join(uint32_t worker, Hello::Role role, double cpus = 1) {
    coordinator_->WorkerJoined(worker, HelloOf(role, cpus), "peer");
    Settle(*coordinator_);
  }
  void Lose(uint32_t worker) {
    coordinator_->WorkerLost(worker, absl::UnavailableError("its lease ran out"));
    Settle(*coordinator_);
  }
  // Advances the clock, and makes a call in which the coordinator does what has become due.
  void Advance(absl::Duration by) {
    clock_.Advance(by);
    Operate({});
  }
  OperatorReply Operate(const OperatorRequest& request) {
    WorkerMessage message;
    *message.mutable_operator_request() = request;
    EXPECT_THAT(HandleNow(coordinator_.get(), kOperator, message), IsOk());
    return sender_.Take(kOperator).back().operator_reply();
  }
  OperatorReply Grow(int32_t by) {
    OperatorRequest request;
    request.set_grow(by);
    return Operate(request);
  }
  OperatorReply Shrink(int32_t by) {
    OperatorRequest request;
    request.set_shrink(by);
    return Operate(request);
  }
  OperatorReply Drain(const std::string& name) {
    OperatorRequest request;
    request.set_drain(name);
    return Operate(request);
  }
  // Returns whether the worker was told since the last Take...() that it may leave.
  bool IsLetGo(uint32_t worker) {
    for (const CoordinatorMessage& message : sender_.Take(worker)) {
      if (message.has_end_run()) return true;
    }
    return false;
  }
  void Handle(uint32_t worker, const WorkerMessage& message) {
    EXPECT_THAT(HandleNow(coordinator_.get(), worker, message), IsOk());
  }
  // Take...() and IsLetGo() take all messages that were sent to the worker since the last of these
  // calls, and drop those of other kinds.
  //
  // Returns the last task; it has no id if there was none.
  LearnerTask TakeLearnerTask(uint32_t worker) {
    LearnerTask task;
    for (const CoordinatorMessage& message : sender_.Take(worker)) {
      if (message.start_task().has_learner()) task = message.start_task().learner();
    }
    return task;
  }
  CollectorTask TakeCollectorTask(uint32_t worker) {
    CollectorTask task;
    for (const CoordinatorMessage& message : sender_.Take(worker)) {
      if (message.start_task().has_collector()) task = message.start_task().collector();
    }
    return task;
  }
  std::vector<uint64_t> TakeAcks(uint32_t worker) {
    std::vector<uint64_t> acks;
    for (const CoordinatorMessage& message : sender_.Take(worker)) {
      if (message.has_collector_data_ack()) acks.push_back(message.collector_data_ack().sequence());
    }
    return acks;
  }
  std::vector<LearnerData> TakeAnswers(uint32_t worker) {
    std::vector<LearnerData> answers;
    for (const CoordinatorMessage& message : sender_.Take(worker)) {
      if (message.has_learner_data()) answers.push_back(message.learner_data());
    }
    return answers;
  }
  // Closes the coordinator, which then has deleted everything that it must, and returns the deleted
  // keys.
  std::vector<std::string> DeletedAfterClose() {
    EXPECT_THAT(coordinator_->Close("over"), IsOk());
    return store_.deleted();
  }
  // Returns the deleted keys when there are `count`, or after 5 seconds: a thread deletes them.
  std::vector<std::string> DeletedWhen(size_t count) {
    for (int i = 0; i < 5000 && store_.deleted().size() < count; ++i) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    return store_.deleted();
  }
  // Returns the number of rows in the first buffer.
  int64_t rows() { return coordinator_->status().buffer(0).count(); }
  WorkerStatus StatusOf(uint32_t worker) {
    const RunStatus run = coordinator_->status();
    for (const WorkerStatus& status : run.worker()) {
      if (status.worker() == worker) return status;
    }
    return {};
  }

  SimulatedClock clock_;
  ComponentDeps deps_;
  SoloCommander::Options commander_options_;
  Coordinator::Options options_;
  Coordinator::BufferFactory make_buffer_;
  Coordinator::SettingsCheck check_settings_;  // null: tasks may have no settings
  std::unique_ptr<Journal> journal_;           // null: none
  SpecPtr items_;
  StopperList stoppers_;
  int64_t capacity_ = 1000;
  bool keeps_policies_ = false;
  std::function<void(CollectorTask*)> prepare_collect_;  // null: the tasks of a SoloCommander
  std::vector<std::string> buffers_made_;
  FakeSender sender_;
  FakeStore store_;
  std::unique_ptr<Coordinator> coordinator_;
  SoloCommander* commander_ = nullptr;
  LearnerTask learner_;
  CollectorTask collector_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_TESTING_COORDINATOR_FIXTURE_H_
