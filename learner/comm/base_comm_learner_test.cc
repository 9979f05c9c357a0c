#include "ding_worker/learner/comm/base_comm_learner.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment_wire.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"
#include "ding_worker/interaction/all_reduce/in_process_all_reduce.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/testing/fake_coordinator.h"
#include "ding_worker/interaction/testing/worker_fuzz.h"
#include "ding_worker/learner/comm/group_member.h"
#include "ding_worker/learner/comm/task_learner.h"
#include "ding_worker/learner/testing/comm_learner_test_fixture.h"
#include "ding_worker/learner/testing/fake_learn_mode.h"
#include "ding_worker/metrics/time_histogram.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(BaseCommLearnerTest, LearnsReportsAndPublishes) {
  Run();
  coordinator_.StartLearner("a");
  const Heard heard = ServeTask();
  ASSERT_THAT(heard.infos, SizeIs(6));
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(heard.infos[i].task_id(), "a");
    EXPECT_EQ(heard.infos[i].learner_step(), static_cast<int64_t>(i) + 1);
    EXPECT_FALSE(heard.infos[i].learner_done());
    EXPECT_THAT(heard.infos[i].priority(), ElementsAre(0.5f));
    EXPECT_THAT(heard.infos[i].replay_unique_id(), ElementsAre(41));
    EXPECT_THAT(heard.infos[i].replay_buffer_idx(), ElementsAre(3));
  }
  EXPECT_TRUE(heard.infos[5].learner_done());
  EXPECT_THAT(heard.infos[5].priority(), IsEmpty()) << "not twice";
  // Before the first iteration, and after 2 and 4.
  EXPECT_THAT(heard.versions, ElementsAre(1, 2, 3));
  EXPECT_EQ(PublishedWeight(1), 0);
  EXPECT_EQ(PublishedWeight(2), 2);
  EXPECT_EQ(PublishedWeight(3), 4);

  // The next task, as a coordinator gives it.
  coordinator_.CloseTask("a");
  coordinator_.StartLearner("b", /*first_version=*/8);
  const Heard next = ServeTask();
  EXPECT_EQ(next.infos.back().task_id(), "b");
  EXPECT_THAT(next.infos, SizeIs(6));
  EXPECT_THAT(next.versions, ElementsAre(8, 9, 10));
  EXPECT_THAT(checkpoints_, SizeIs(2));
}

TEST_F(BaseCommLearnerTest, LastCheckpointIsNotSaved_TheStoreSaysSoUntilAnotherOneIs) {
  class UnsavedTask : public FakeTask {
   public:
    using FakeTask::FakeTask;
    absl::Status SaveProgress() override { return saved; }
    absl::Status saved;
  };
  std::vector<std::string> noted;  // before each task
  Run([&](const LearnerTask& task, GroupMember*) {
    noted.push_back(absl::StrJoin(store_.List("unsaved/").value(), ","));
    auto made = std::make_unique<UnsavedTask>(train_iterations_, &mode_, &checkpoints_);
    if (task.task_id() == "a") made->saved = absl::ResourceExhaustedError("the disk is full");
    return made;
  });
  for (const char* const task : {"a", "b", "c"}) {
    coordinator_.StartLearner(task);
    ServeTask();
    coordinator_.CloseTask(task);
  }
  EXPECT_THAT(noted, ElementsAre("", "unsaved/policy_0", ""));
}

// A task that begins with the parameters of another policy.
class InitPolicyTest : public BaseCommLearnerTest {
 protected:
  InitPolicyTest() {
    const auto encoded =
        EncodeState([](StateWriter* writer) { return writer->WriteDouble("weight", 40); });
    EXPECT_THAT(store_.MemStore::Put("policy/better", encoded->pieces()), IsOk());
  }
  void Start(const std::string& key) {
    CoordinatorMessage message;
    LearnerTask* const task = message.mutable_start_task()->mutable_learner();
    task->set_task_id("a");
    task->set_policy_id("policy_0");
    task->set_first_version(1);
    task->mutable_init_policy()->set_policy_id("policy_7");
    task->mutable_init_policy()->set_version(3);
    task->mutable_init_policy()->set_key(key);
    coordinator_.Send(message);
  }
};

TEST_F(InitPolicyTest, IsPublishedFirstAndTrained) {
  Run();
  Start("policy/better");
  EXPECT_THAT(ServeTask().versions, ElementsAre(1, 2, 3));
  EXPECT_EQ(PublishedWeight(1), 40);
  EXPECT_EQ(PublishedWeight(2), 42);
}

TEST_F(InitPolicyTest, IsNotLoadedByALearnerThatGoesOnFromItsCheckpoint) {
  class ResumingTask : public FakeTask {
   public:
    using FakeTask::FakeTask;
    bool resumes() const override { return true; }
  };
  Run([this](const LearnerTask&, GroupMember*) {
    return std::make_unique<ResumingTask>(train_iterations_, &mode_, &checkpoints_);
  });
  Start("policy/gone");
  ServeTask();
  EXPECT_EQ(PublishedWeight(1), 0);
}

TEST_F(InitPolicyTest, AMissingInitPolicyFailsTheTask) {
  Run();
  Start("policy/gone");
  EXPECT_THAT(ServeTask().end.task_failed().message(),
              HasSubstr("a cannot begin with version 3 of policy_7"));
}

TEST_F(InitPolicyTest, IsWaitedForWhileTheStoreIsAway) {
  std::atomic<int> gets{0};
  store_.set_on_get([&gets](absl::string_view) {
    return ++gets < 3 ? absl::UnavailableError("away") : absl::OkStatus();
  });
  Run();
  Start("policy/better");
  ServeTask();
  EXPECT_EQ(PublishedWeight(1), 40);
}

// A task may have other options than the worker.
TEST_F(BaseCommLearnerTest, ATaskMayPublishMoreOften) {
  class OwnTask : public FakeTask {
   public:
    using FakeTask::FakeTask;
    void ReadOptions(CommLearnerOptions* options) const override { options->send_policy_freq = 1; }
  };
  int tasks = 0;
  Run([&](const LearnerTask&, GroupMember*) -> absl::StatusOr<std::unique_ptr<TaskLearner>> {
    if (++tasks == 2) return std::make_unique<FakeTask>(train_iterations_, &mode_, &checkpoints_);
    return std::make_unique<OwnTask>(train_iterations_, &mode_, &checkpoints_);
  });
  coordinator_.StartLearner("a");
  EXPECT_THAT(ServeTask().versions, SizeIs(6));
  coordinator_.CloseTask("a");
  coordinator_.StartLearner("b", /*first_version=*/8);
  EXPECT_THAT(ServeTask().versions, SizeIs(3)) << "the next one is as the worker was told";
}

TEST_F(BaseCommLearnerTest, ReportsAreGatheredAndLoseNoPriorities) {
  options_.send_info_freq = 2;
  Run();
  coordinator_.StartLearner("a");
  const Heard heard = ServeTask();
  ASSERT_THAT(heard.infos, SizeIs(3));
  EXPECT_EQ(heard.infos[0].priority_size(), 2);
  EXPECT_EQ(heard.infos[1].priority_size(), 2);
  EXPECT_EQ(heard.infos[2].priority_size(), 1) << "of the last iteration, which was not due";
}

TEST_F(BaseCommLearnerTest, APolicyThatFailsFailsTheTask) {
  mode_.next_error = absl::InternalError("the loss is NaN");
  Run();
  coordinator_.StartLearner("a");
  const TaskFailed failed = ServeTask().end.task_failed();
  EXPECT_EQ(failed.task_id(), "a");
  EXPECT_EQ(failed.code(), static_cast<int>(absl::StatusCode::kInternal));
  EXPECT_THAT(failed.message(), HasSubstr("the loss is NaN"));
  coordinator_.StartLearner("b");
  EXPECT_TRUE(ServeTask().infos.back().learner_done()) << "the next task goes well";
}

TEST_F(BaseCommLearnerTest, AFactoryThatFailsFailsTheTask) {
  Run([](const LearnerTask&, GroupMember*) { return absl::NotFoundError("no policy 'dpn'"); });
  coordinator_.StartLearner("a");
  EXPECT_EQ(ServeTask().end.task_failed().message(), "no policy 'dpn'");
}

TEST_F(BaseCommLearnerTest, ATaskWithoutDataFails) {
  options_.data_timeout = absl::Milliseconds(50);
  Run();
  coordinator_.StartLearner("a");
  const WorkerMessage failed = coordinator_.ReceiveUntil(
      [](const WorkerMessage& message) { return message.has_task_failed(); });
  EXPECT_EQ(failed.task_failed().code(), static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(failed.task_failed().message(), HasSubstr("no data to learn from"));
}

// Batches of which nothing can be read are passed over.
TEST_F(BaseCommLearnerTest, GoesOnWithoutChunksThatAreGone) {
  Run();
  coordinator_.StartLearner("a");
  int demands = 0;
  ServeUntil(
      [&demands](const WorkerMessage& message) {
        demands += message.has_learner_demand() ? 1 : 0;
        return demands == 6;
      },
      /*chunk=*/99);
  const Heard heard = ServeTask();
  EXPECT_EQ(heard.infos.back().learner_step(), 5);
}

// A store that has lost everything, the policy too: without it no collector would bring new data.
TEST_F(BaseCommLearnerTest, PutsItsPolicyIntoAStoreThatHasLostItAgain) {
  Run();
  coordinator_.StartLearner("a");
  ServeUntil([](const WorkerMessage& message) { return message.has_policy_version(); },
             /*chunk=*/99);
  ASSERT_THAT(store_.Clear(), IsOk());
  const std::string key = PolicyKey("policy_0", 1, FakeCoordinator::kWorker);
  const auto is_back = [&](const WorkerMessage& message) {
    return message.has_learner_demand() && store_.List(key)->size() == 1;
  };
  ServeUntil(is_back, /*chunk=*/99);
  EXPECT_EQ(PublishedWeight(1), 0);
  // Also while it waits for data, and if something else lies there.
  ASSERT_THAT(store_.Clear(), IsOk());
  while (store_.List(key)->empty()) std::this_thread::yield();
  const int puts = store_.stored();
  store_.set_on_get([&](absl::string_view asked) {
    return asked == key && store_.stored() == puts ? absl::DataLossError("it is damaged")
                                                   : absl::OkStatus();
  });
  while (store_.stored() == puts) std::this_thread::yield();
  coordinator_.EndRun("over");
  EXPECT_EQ(End().value().reason(), "over");
}

// A store that hangs: the learner says so while it waits, and that it goes on at once.
TEST_F(BaseCommLearnerTest, TellsThatTheStoreDoesNotGiveRows) {
  std::atomic<bool> hangs{true};
  store_.set_on_get([&hangs](absl::string_view) {
    while (hangs.load()) absl::SleepFor(absl::Milliseconds(1));
    return absl::OkStatus();
  });
  options_.send_info_freq = 1000;
  Run();
  coordinator_.StartLearner("a");
  const Heard heard = ServeUntil([](const WorkerMessage& message) {
    return absl::StrContains(message.learner_info().stalled(), "the store");
  });
  EXPECT_THAT(heard.stalls.back(), HasSubstr("which has not given 'data/0/1'"));
  hangs.store(false);
  const Heard on = ServeUntil([](const WorkerMessage& message) {
    return message.has_learner_info() && message.learner_info().stalled().empty();
  });
  EXPECT_EQ(on.infos.back().learner_step(), 1) << "though 1000 iterations are between reports";
}

TEST_F(BaseCommLearnerTest, TellsThatNoRowCanBeRead) {
  Run();
  coordinator_.StartLearner("a");
  const Heard heard = ServeUntil(
      [](const WorkerMessage& message) { return !message.learner_info().stalled().empty(); },
      /*chunk=*/99);
  EXPECT_THAT(heard.stalls.back(), HasSubstr("rows that can be read: "));
}

TEST_F(BaseCommLearnerTest, StagesAreMeasured) {
  Run();
  coordinator_.StartLearner("a");
  ServeTask();
  coordinator_.EndRun("over");
  EXPECT_THAT(End(), IsOk());
  const StageTimes stages = learner_->stage_times();
  std::vector<std::string> passes;
  for (const auto& [name, times] : stages) {
    passes.push_back(absl::StrCat(
        name, " ", std::accumulate(times.counts().begin(), times.counts().end(), int64_t{0})));
    EXPECT_GT(times.nanos(), 0);
  }
  EXPECT_THAT(passes, ElementsAre("sample 5", "learn 5", "publish 3"));
}

TEST_F(BaseCommLearnerTest, TheEndOfTheRunSavesACheckpoint) {
  train_iterations_ = 1000000;
  Run();
  coordinator_.StartLearner("a");
  ServeUntil(
      [](const WorkerMessage& message) { return message.learner_info().learner_step() >= 3; });
  EXPECT_THAT(checkpoints_, IsEmpty());
  coordinator_.EndRun("over");
  EXPECT_EQ(End().value().reason(), "over");
  ASSERT_THAT(checkpoints_, SizeIs(1));
}

// The first one is what collectors begin with: it is tried again.
TEST_F(BaseCommLearnerTest, TheFirstPolicyWaitsForTheStore) {
  store_.on_put = [](int put) {
    return put <= 2 ? absl::UnavailableError("the disk is away") : absl::OkStatus();
  };
  Run();
  coordinator_.StartLearner("a");
  const Heard heard = ServeTask();
  EXPECT_THAT(heard.stalls,
              ElementsAre(HasSubstr("the disk is away"), HasSubstr("the disk is away")));
  EXPECT_THAT(heard.versions, ElementsAre(1, 2, 3));
  EXPECT_EQ(PublishedWeight(1), 0);
}

TEST_F(BaseCommLearnerTest, LaterPoliciesAreLeftOutWhileTheStoreIsFullAndTrainingGoesOn) {
  train_iterations_ = 8;
  store_.on_put = [](int put) {
    return put == 2 || put == 3 ? absl::ResourceExhaustedError("no space left") : absl::OkStatus();
  };
  Run();
  coordinator_.StartLearner("a");
  const Heard heard = ServeTask();
  EXPECT_EQ(heard.infos.back().learner_step(), 8);
  EXPECT_THAT(heard.versions, ElementsAre(1, 2, 3));
  EXPECT_EQ(PublishedWeight(2), 6) << "those after 2 and 4 iterations were not published";
  EXPECT_THAT(heard.stalls, Contains(HasSubstr("the store takes no policy: no space left")));
}

TEST_F(BaseCommLearnerTest, ATaskClosedWhileItsFirstPolicyWaitsEnds) {
  store_.on_put = [](int) { return absl::ResourceExhaustedError("no space left"); };
  Run();
  coordinator_.StartLearner("a");
  coordinator_.ReceiveUntil(
      [](const WorkerMessage& message) { return !message.learner_info().stalled().empty(); });
  coordinator_.CloseTask("a");
  EXPECT_EQ(ServeTask().end.task_failed().code(), static_cast<int>(absl::StatusCode::kCancelled));
}

TEST_F(BaseCommLearnerTest, AnotherErrorOfTheStoreFailsTheTask) {
  store_.on_put = [](int) { return absl::PermissionDeniedError("read-only"); };
  Run();
  coordinator_.StartLearner("a");
  EXPECT_THAT(ServeTask().end.task_failed().message(), HasSubstr("read-only"));
}

TEST_F(BaseCommLearnerTest, LosingTheCoordinatorEndsTaskAndRun) {
  train_iterations_ = 1000000;
  Run();
  coordinator_.StartLearner("a");
  ServeUntil(
      [](const WorkerMessage& message) { return message.learner_info().learner_step() >= 3; });
  coordinator_.session()->Close("enough");
  EXPECT_THAT(End(), IsError(absl::StatusCode::kAborted, "enough"));
}

// A random message of a coordinator to a learner.
CoordinatorMessage RandomMessage(Mutator* mutator) {
  CoordinatorMessage message;
  Rng* const rng = mutator->rng();
  const std::string task_id = absl::StrCat("task_", rng->UniformInt(3));
  switch (rng->UniformInt(8)) {
    case 0:
    case 1: {
      LearnerTask* const task = message.mutable_start_task()->mutable_learner();
      task->set_task_id(task_id);
      task->set_policy_id("policy_0");
      task->set_first_version(1 + rng->UniformInt(9));
      break;
    }
    case 2:
      message.mutable_close_task()->set_task_id(task_id);
      break;
    case 3:
      message.mutable_policy_version()->set_policy_id("policy_0");
      message.mutable_policy_version()->set_version(rng->UniformInt(9));
      break;
    default:
      message.mutable_learner_data()->set_task_id(task_id);
      message.mutable_learner_data()->set_sequence(1 + rng->UniformInt(9));
      for (uint64_t batches = 1 + rng->UniformInt(3); batches > 0; --batches) {
        message.mutable_learner_data()->add_items(Items(kChunk));
      }
  }
  return message;
}

// A random message of an aggregator to a learner of its group.
CoordinatorMessage RandomMessageToAGroup(Mutator* mutator) {
  CoordinatorMessage message;
  Rng* const rng = mutator->rng();
  const std::string task_id = absl::StrCat("task_", rng->UniformInt(2));
  const auto generation = static_cast<uint32_t>(1 + rng->UniformInt(9));
  switch (rng->UniformInt(9)) {
    case 0:
    case 1:
    case 2: {
      FormGroup* const form = message.mutable_form_group();
      form->set_task_id(task_id);
      form->set_generation(generation);
      form->set_world_size(static_cast<int32_t>(1 + rng->UniformInt(2)));
      form->set_rank(
          static_cast<int32_t>(rng->UniformInt(static_cast<uint64_t>(form->world_size()))));
      form->set_first_version(1 + rng->UniformInt(9));
      break;
    }
    case 3:
      message.mutable_break_group()->set_task_id(task_id);
      message.mutable_break_group()->set_generation(generation);
      break;
    case 4:
    case 5:
      message.mutable_group_value()->set_task_id(task_id);
      message.mutable_group_value()->set_generation(generation);
      message.mutable_group_value()->set_key(absl::StrCat(rng->UniformInt(3)));
      message.mutable_group_value()->set_value("127.0.0.1:1");
      break;
    case 6:
    case 7: {
      LearnerTask* const task = message.mutable_start_task()->mutable_learner();
      task->set_task_id(task_id);
      task->set_group_worker(7);
      break;
    }
    default:
      message = RandomMessage(mutator);
  }
  return message;
}

// The generations that the learner was in, and those that it could not be in.
struct Connections {
  int made = 0;
  int failed = 0;
};

absl::StatusOr<EndRun> RunOne(CommLearnerOptions options, WorkerSession* session) {
  MemStore store;
  EXPECT_THAT(store.Put(ChunkKey(kChunk), EncodedSegments(OneRow()).pieces()), IsOk());
  FakeLearnMode mode;
  std::vector<std::string> checkpoints;
  options.batch_size = 1;
  BaseCommLearner learner(options, session, &store, [&](const LearnerTask&, GroupMember*) {
    return std::make_unique<FakeTask>(/*train_iterations=*/3, &mode, &checkpoints);
  });
  return learner.Run();
}

TEST(BaseCommLearnerFuzz, TheRunEndsAfterRandomMessages) {
  FuzzWorker(RandomMessage, [](WorkerSession* session) { return RunOne({}, session); });
}

TEST(BaseCommLearnerFuzz, TheRunEndsAfterRandomMessagesOfItsAggregator) {
  Connections connections;
  FuzzWorker(RandomMessageToAGroup, [&connections](WorkerSession* session) {
    InProcessAllReduceHub hub;
    CommLearnerOptions options;
    options.group_timeout = absl::Milliseconds(2);
    // The ranks say where they are, and look for the others, as over a network.
    options.connect_group =
        [&](const AllReduceOptions& group,
            Rendezvous* rendezvous) -> absl::StatusOr<std::unique_ptr<AllReduce>> {
      const auto connect = [&]() -> absl::StatusOr<std::unique_ptr<AllReduce>> {
        DING_RETURN_IF_ERROR(CheckAllReduceOptions(group));
        DING_RETURN_IF_ERROR(rendezvous->Set(absl::StrCat(group.rank), "127.0.0.1:2"));
        for (int rank = 0; rank < std::min(group.world_size, 2); ++rank) {
          if (rank == group.rank) continue;
          DING_RETURN_IF_ERROR(rendezvous->Get(absl::StrCat(rank), group.timeout).status());
        }
        return hub.Connect(group);
      };
      absl::StatusOr<std::unique_ptr<AllReduce>> made = connect();
      ++(made.ok() ? connections.made : connections.failed);
      return made;
    };
    return RunOne(options, session);
  });
  EXPECT_GT(connections.made, 0);
  EXPECT_GT(connections.failed, 0);
}

}  // namespace
}  // namespace ding
