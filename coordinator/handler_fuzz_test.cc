// Random runs with workers that send good messages and impossible ones. Whatever they send, the
// core of the coordinator (core/run_state.h: no threads, no IO) goes on, loses no row that it has
// acknowledged, deletes no chunk in use, and counts only rows, versions and evaluations that came.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/core/events.pb.h"
#include "ding_worker/coordinator/core/run_driver.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/testing/message_mutator.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int64_t kRowsPerChunk = 4;
// Env steps that the coordinator believes of each item: 4 of each of its 4 rows.
constexpr int64_t kStepsPerItem = 16;

// All workers: they answer as real ones do, and sometimes say something else.
class Workers : public CoordinatorSender {
 public:
  void Send(uint32_t worker, const CoordinatorMessage& message) override {
    const auto found = workers_.find(worker);
    if (found == workers_.end()) return;
    if (message.has_start_task()) found->second.task = message.start_task();
    if (message.has_close_task()) found->second.task.Clear();
    if (!message.has_collector_data_ack()) return;
    // A worker drops the acknowledgements of tasks that are over.
    const CollectorDataAck& ack = message.collector_data_ack();
    if (ack.task_id().empty() || ack.task_id() != found->second.task.collector().task_id()) return;
    for (const auto& [sequence, data] : found->second.sent) {
      if (data.chunk >= 0 && sequence <= ack.sequence() && data.task_id == ack.task_id()) {
        acknowledged_.insert(data.chunk);
      }
    }
  }

  void Join(uint32_t id, Hello::Role role) { workers_[id].role = role; }
  void Lose(uint32_t id) { workers_.erase(id); }
  std::vector<uint32_t> ids() const {
    std::vector<uint32_t> ids;
    for (const auto& [id, worker] : workers_) ids.push_back(id);
    return ids;
  }
  // Chunks whose rows were acknowledged.
  std::set<int64_t> acknowledged() const { return acknowledged_; }
  // The chunks that a learner has reported as bad.
  std::set<int64_t> reported() const { return reported_; }
  int64_t versions() const { return versions_; }

  // Returns the next message of such a worker, or an error if its bytes are not a message.
  absl::StatusOr<WorkerMessage> Says(uint32_t id, Mutator* mutator) {
    Worker& worker = workers_[id];
    Rng* const rng = mutator->rng();
    WorkerMessage message;
    if (worker.role == Hello::OPERATOR || rng->UniformInt(20) == 0) {
      message.mutable_status_request();
    } else if (worker.role == Hello::COLLECTOR) {
      CollectorSays(id, rng, &worker, &message);
    } else {
      LearnerSays(id, rng, &worker, &message);
    }
    if (rng->UniformInt(4) == 0) MutateMessage(mutator, &message);
    if (rng->UniformInt(8) == 0) {
      DING_ASSIGN_OR_RETURN(message,
                            ParseWorkerMessage(mutator->Mutate(message.SerializeAsString())));
    }
    for (const BadChunk& bad : message.bad_chunks().chunk()) reported_.insert(bad.chunk());
    versions_ += message.has_policy_version() ? 1 : 0;
    if (message.has_collector_data()) {
      // Only rows of the running task are kept. Of two messages with one number the second one is
      // taken for the first, sent again.
      const CollectorData& data = message.collector_data();
      const bool kept =
          !data.items().empty() && data.task_id() == worker.task.collector().task_id();
      const int64_t chunk = kept ? ChunkNumber(id, worker.chunks - 1) : -1;
      worker.sent.insert({data.sequence(), {data.task_id(), chunk}});
    }
    return message;
  }

 private:
  struct SentData {
    std::string task_id;
    int64_t chunk = 0;  // -1: none
  };
  struct Worker {
    Hello::Role role = Hello::COLLECTOR;
    StartTask task;
    uint64_t sequence = 0;
    uint32_t chunks = 0;
    std::map<uint64_t, SentData> sent;  // by sequence
    uint64_t demands = 0;
    uint64_t versions = 0;
    int64_t steps = 0;
  };

  static void Fail(const std::string& task_id, WorkerMessage* message) {
    message->mutable_task_failed()->set_task_id(task_id);
    message->mutable_task_failed()->set_code(static_cast<int>(absl::StatusCode::kCancelled));
  }

  static void CollectorSays(uint32_t id, Rng* rng, Worker* worker, WorkerMessage* message) {
    const CollectorTask& task = worker->task.collector();
    const uint64_t what = rng->UniformInt(10);
    if (what == 0) {
      message->mutable_task_started()->set_task_id(task.task_id());
    } else if (what == 1) {
      Fail(task.task_id(), message);
    } else if (what == 2 || task.eval_flag()) {
      CollectorFinished* const info = message->mutable_collector_finished();
      info->set_task_id(task.task_id());
      info->set_collector_done(true);
      info->set_step_count(10);
      info->add_episode_return(1);
    } else {
      CollectorData* const data = message->mutable_collector_data();
      data->set_task_id(task.task_id());
      data->set_sequence(++worker->sequence);
      const int64_t chunk = ChunkNumber(id, worker->chunks++);
      data->set_items(EncodedBatch(TestItemsOfChunk(chunk, kRowsPerChunk).rows).ToString());
      data->mutable_progress()->set_cur_step(++worker->steps);
    }
  }

  void LearnerSays(uint32_t id, Rng* rng, Worker* worker, WorkerMessage* message) {
    const LearnerTask& task = worker->task.learner();
    switch (rng->UniformInt(10)) {
      case 9: {
        // Bad chunks are reported seldom, since each one costs rows.
        if (acknowledged_.empty() || rng->UniformInt(8) > 0) {
          message->mutable_task_started()->set_task_id(task.task_id());
          break;
        }
        message->mutable_bad_chunks()->set_task_id(task.task_id());
        const auto chunk = std::next(acknowledged_.begin(),
                                     static_cast<int64_t>(rng->UniformInt(acknowledged_.size())));
        message->mutable_bad_chunks()->add_chunk()->set_chunk(*chunk);
        message->mutable_bad_chunks()->mutable_chunk(0)->set_gone(rng->UniformInt(2) == 0);
        break;
      }
      case 0:
        Fail(task.task_id(), message);
        break;
      case 5: {
        WorkerStatus* const member = message->mutable_group_status()->add_member();
        member->set_name("learner-0");
        member->set_role(Hello::LEARNER);
        break;
      }
      case 1: {
        PolicyVersion* const version = message->mutable_policy_version();
        worker->versions = std::max(worker->versions + 1, task.first_version());
        version->set_policy_id(task.policy_id());
        version->set_version(worker->versions);
        version->set_key(PolicyKey(task.policy_id(), worker->versions, id));
        break;
      }
      case 2: {
        LearnerInfo* const info = message->mutable_learner_info();
        info->set_task_id(task.task_id());
        info->set_learner_step(++worker->steps);
        info->set_learner_done(rng->UniformInt(10) == 0);
        break;
      }
      case 3:
      case 4:
        message->mutable_task_started()->set_task_id(task.task_id());
        break;
      default: {
        LearnerDemand* const demand = message->mutable_learner_demand();
        demand->set_task_id(task.task_id());
        demand->set_sequence(++worker->demands);
        demand->set_batch_size(1 + static_cast<int64_t>(rng->UniformInt(8)));
        demand->set_batches(1 + static_cast<int32_t>(rng->UniformInt(3)));
        demand->set_read(worker->demands - 1);
      }
    }
  }

  std::map<uint32_t, Worker> workers_;
  std::set<int64_t> acknowledged_;
  std::set<int64_t> reported_;
  int64_t versions_ = 0;
};

class RandomRun {
 public:
  explicit RandomRun(Mutator* mutator) : mutator_(mutator) {
    ComponentDeps deps;
    deps.clock = &clock_;
    SoloCommander::Options commander;
    commander.collector_task_space = 2;
    commander.eval_interval = 5;
    commander.stop_value = 100;
    Coordinator::Options options;
    options.collectors = 2;
    options.max_task_failures = 1000;
    Coordinator::Parts parts;
    parts.commander = SoloCommander::Create(commander, nullptr, deps).value();
    parts.make_buffer = [this](const std::string& /*id*/,
                               absl::Span<const std::string> /*settings*/, OnRemoved on_removed) {
      NaiveReplayBuffer::Options buffer;
      buffer.capacity_rows = 12 * kRowsPerChunk;
      buffer.on_removed = [this, on_removed](const RemovedItems& removed) {
        // The removal is noted before it has consequences, so that delete_key finds it noted.
        removed_.insert(removed.chunks.begin(), removed.chunks.end());
        on_removed(removed);
      };
      return NaiveReplayBuffer::Create(buffer);
    };
    parts.delete_key = [this](const std::string& key) {
      deleted_.push_back(key);
      return absl::OkStatus();
    };
    parts.sender = &workers_;
    driver_ = absl::make_unique<internal_coordinator::RunDriver>(options, std::move(parts), now());
    Event event;
    event.set_start(true);
    EXPECT_THAT(Apply(&event).status, IsOk());
  }

  void Step() {
    Rng* const rng = mutator_->rng();
    const std::vector<uint32_t> ids = workers_.ids();
    const uint64_t what = rng->UniformInt(20);
    if (ids.empty() || (what == 0 && ids.size() < 6)) {
      Join();
    } else if (what == 1) {
      Lose(ids[rng->UniformInt(ids.size())], "its lease ran out");
    } else if (what == 2) {
      clock_.Advance(absl::Seconds(static_cast<int64_t>(rng->UniformInt(10))));
      Event event;
      event.set_timer(true);
      EXPECT_THAT(Apply(&event).status, IsOk());
    } else {
      const uint32_t worker = ids[rng->UniformInt(ids.size())];
      const absl::StatusOr<WorkerMessage> message = workers_.Says(worker, mutator_);
      const absl::Status status = message.ok() ? Handle(worker, *message) : message.status();
      ++outcomes[status.code()];
      if (!status.ok()) Lose(worker, status.message());
    }
  }

  void CheckEnd() {
    const RunStatus status = StatusOf(driver_->state());
    const Coordinator::Counters& counters = driver_->state().counters;
    EXPECT_LE(counters.rows_acknowledged, counters.rows_pushed);
    // These hold whatever steps, versions and returns the workers claimed. A version may skip
    // numbers.
    EXPECT_LE(status.envstep(), kStepsPerItem * counters.rows_pushed);
    EXPECT_LE(status.policy_version(), 1001u * static_cast<uint64_t>(workers_.versions()));
    EXPECT_TRUE(std::isfinite(status.eval_value()) && std::isfinite(status.best_eval_value()));
    EXPECT_LE(status.train_iter(), int64_t{1} << 40);
    for (const BufferStatus& buffer : status.buffer()) {
      EXPECT_EQ(buffer.push_count(), buffer.count() + buffer.removed_count());
    }
    CheckDeleted();
    rows_acknowledged += counters.rows_acknowledged;
    demands_answered += counters.demands_answered;
    driver_->End(now(), "over");
    driver_->Close(now());
  }

  // Sums over all runs, to check that the runs were not idle.
  static std::map<absl::StatusCode, int> outcomes;
  static int64_t rows_acknowledged;
  static int64_t demands_answered;

 private:
  int64_t now() const { return clock_.MonotonicNanos(); }
  internal_coordinator::Outcome Apply(Event* event) {
    internal_coordinator::Outcome outcome = driver_->Apply(now(), event);
    EXPECT_FALSE(outcome.waits) << "these buffers have no rate limit";
    EXPECT_THAT(driver_->Commit(now()), IsOk());
    return outcome;
  }
  // As the coordinator does, which answers questions itself.
  absl::Status Handle(uint32_t worker, const WorkerMessage& message) {
    Event event;
    event.set_worker(worker);
    if (message.has_status_request()) {
      StatusOf(driver_->state());
    } else if (message.has_operator_request()) {
      *event.mutable_request() = message.operator_request();
      Apply(&event);
    } else {
      *event.mutable_message() = message;
      return Apply(&event).status;
    }
    return absl::OkStatus();
  }
  void Join() {
    const uint64_t kind = mutator_->rng()->UniformInt(4);
    Hello hello;
    hello.set_role(kind == 0 ? Hello::LEARNER : kind == 1 ? Hello::OPERATOR : Hello::COLLECTOR);
    if (mutator_->rng()->UniformInt(8) == 0) MutateMessage(mutator_, &hello);
    Event event;
    *event.mutable_admit() = hello;
    const internal_coordinator::Outcome outcome = Apply(&event);
    if (!outcome.status.ok()) return;
    workers_.Join(outcome.admitted, hello.role());
    event.set_worker(outcome.admitted);
    *event.mutable_joined()->mutable_hello() = hello;
    event.mutable_joined()->set_peer("peer");
    EXPECT_THAT(Apply(&event).status, IsOk());
  }
  void Lose(uint32_t worker, absl::string_view why) {
    workers_.Lose(worker);
    Event event;
    event.set_worker(worker);
    event.mutable_lost()->set_code(static_cast<int>(absl::StatusCode::kUnavailable));
    event.mutable_lost()->set_why(std::string(why));
    EXPECT_THAT(Apply(&event).status, IsOk());
  }
  // Checks that no acknowledged chunk was deleted unless it was evicted or reported as bad.
  void CheckDeleted() {
    const std::set<std::string> deleted(deleted_.begin(), deleted_.end());
    const std::set<int64_t> reported = workers_.reported();
    for (const int64_t chunk : workers_.acknowledged()) {
      if (removed_.count(chunk) > 0 || reported.count(chunk) > 0) continue;
      EXPECT_EQ(deleted.count(ChunkKey(chunk)), 0u) << ChunkKey(chunk) << " is in use";
    }
    for (const std::string& key : deleted) {
      EXPECT_TRUE(absl::StartsWith(key, "policy/") || absl::StartsWith(key, "data/")) << key;
    }
  }

  Mutator* const mutator_;
  SimulatedClock clock_;
  Workers workers_;
  std::set<int64_t> removed_;
  std::vector<std::string> deleted_;
  std::unique_ptr<internal_coordinator::RunDriver> driver_;
};

std::map<absl::StatusCode, int> RandomRun::outcomes;
int64_t RandomRun::rows_acknowledged = 0;
int64_t RandomRun::demands_answered = 0;

TEST(HandlerFuzz, ARunSurvivesMutatedMessagesOfItsWorkers) {
  constexpr int kSteps = 300;
  SetMinLogSeverity(LogSeverity::kError);
  Fuzz(200, [](Mutator* mutator) {
    RandomRun run(mutator);
    for (int i = 0; i < kSteps && mutator->more(); ++i) run.Step();
    run.CheckEnd();
  });
  EXPECT_GT(RandomRun::rows_acknowledged, 1000);
  EXPECT_GT(RandomRun::demands_answered, 100);
  EXPECT_GT(RandomRun::outcomes[absl::StatusCode::kInvalidArgument], 100);
  EXPECT_GT(RandomRun::outcomes[absl::StatusCode::kOk], 1000);
}

}  // namespace
}  // namespace ding
