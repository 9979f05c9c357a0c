#include "ding_worker/adapter/learner_aggregator.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/adapter/testing/rows.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/testing/fake_coordinator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr absl::Duration kLong = absl::Minutes(1);
constexpr char kAddress[] = "learners";

// A learner of a group that sends exactly the messages that a test tells it to send. All are about
// task "a" and policy "policy_0". A message that cannot be sent fails the test.
class FakeLearner {
 public:
  // Joins the aggregator; joined() says whether it is admitted.
  FakeLearner(FakeCoordinator* coordinator, const std::string& name,
              Hello::Role role = Hello::LEARNER) {
    Hello hello;
    hello.set_role(role);
    hello.set_name(name);
    hello.set_pid(4711);
    hello.mutable_resources()->set_cpus(2);
    hello.mutable_resources()->set_memory_bytes(1000);
    hello.mutable_resources()->set_gpus(1);
    WorkerSession::Options options;
    options.session.lease = kLong;
    session_ = WorkerSession::Join(coordinator->transport(), kAddress, hello, options);
  }

  const absl::Status& joined() const { return session_.status(); }
  void Leave() { (*session_)->Close("leaves"); }

  // Returns the next message; an empty one if none comes within a minute or the session is over.
  CoordinatorMessage Receive() {
    absl::StatusOr<CoordinatorMessage> message = (*session_)->Receive(kLong);
    over_ = message.status();
    return message.ok() ? *message : CoordinatorMessage();
  }
  // Why the last Receive() had no message.
  const absl::Status& over() const { return over_; }

  void Send(const WorkerMessage& message) {
    EXPECT_THAT((*session_)->Send(message, kLong), IsOk());
  }
  void Ready(uint32_t generation = 0, int64_t train_iter = 0) {
    WorkerMessage message;
    message.mutable_group_ready()->set_task_id("a");
    message.mutable_group_ready()->set_model_digest("d");
    message.mutable_group_ready()->set_generation(generation);
    message.mutable_group_ready()->set_train_iter(train_iter);
    Send(message);
  }
  // Demands two batches of `rows` rows.
  void Demand(uint64_t sequence, int64_t rows, uint64_t read = 0) {
    WorkerMessage message;
    LearnerDemand* const demand = message.mutable_learner_demand();
    demand->set_task_id("a");
    demand->set_sequence(sequence);
    demand->set_batch_size(rows);
    demand->set_batches(2);
    demand->set_read(read);
    Send(message);
  }
  // Reports the priority of one row. The row's unique id is ten times the priority, its buffer
  // index a hundred times.
  void Info(int64_t step, float priority, bool done = false) {
    WorkerMessage message;
    LearnerInfo* const info = message.mutable_learner_info();
    info->set_task_id("a");
    info->set_learner_step(step);
    info->set_learner_done(done);
    info->add_priority(priority);
    info->add_replay_unique_id(static_cast<int64_t>(priority * 10));
    info->add_replay_buffer_idx(static_cast<int64_t>(priority * 100));
    Send(message);
  }
  void Policy(uint64_t version) {
    WorkerMessage message;
    message.mutable_policy_version()->set_policy_id("policy_0");
    message.mutable_policy_version()->set_version(version);
    message.mutable_policy_version()->set_key(
        PolicyKey("policy_0", version, FakeCoordinator::kWorker));
    Send(message);
  }
  void Fail(absl::StatusCode code, const std::string& why) {
    WorkerMessage message;
    message.mutable_task_failed()->set_task_id("a");
    message.mutable_task_failed()->set_code(static_cast<int>(code));
    message.mutable_task_failed()->set_message(why);
    Send(message);
  }

 private:
  absl::StatusOr<std::unique_ptr<WorkerSession>> session_ = absl::UnknownError("");
  absl::Status over_;
};

class LearnerAggregatorTest : public testing::Test {
 protected:
  LearnerAggregatorTest() {
    options_.connect_timeout = kLong;
    options_.form_timeout = kLong;
    options_.admit_period = absl::ZeroDuration();
    options_.leave_timeout = absl::Milliseconds(10);
    options_.report_period =
        absl::InfiniteDuration();  // Reports would make the order of messages random.
    options_.server.address = kAddress;
    options_.server.session.lease = kLong;
  }
  ~LearnerAggregatorTest() override {
    coordinator_.session()->Close("the test is over");
    if (running_.joinable()) running_.join();
  }

  void Run(int learner_num) {
    options_.learner_num = learner_num;
    aggregator_ =
        LearnerAggregator::Create(options_, session_.get(), coordinator_.transport()).value();
    running_ = std::thread([this] { end_ = aggregator_->Run(); });
  }
  absl::StatusOr<EndRun> End() {
    running_.join();
    return end_;
  }
  std::vector<std::unique_ptr<FakeLearner>> Learners(int count) {
    std::vector<std::unique_ptr<FakeLearner>> learners;
    for (int i = 0; i < count; ++i) learners.push_back(Join(absl::StrCat("learner-", i)));
    return learners;
  }
  // Joins a learner and waits until the coordinator has been told of it.
  std::unique_ptr<FakeLearner> Join(const std::string& name) {
    auto learner = std::make_unique<FakeLearner>(&coordinator_, name);
    EXPECT_THAT(learner->joined(), IsOk());
    resources_ = coordinator_.Receive().resources();
    return learner;
  }
  // Forms a generation of `learners`.
  void Form(const std::vector<std::unique_ptr<FakeLearner>>& learners) {
    coordinator_.StartLearner("a");
    for (const auto& learner : learners) {
      EXPECT_EQ(learner->Receive().start_task().learner().task_id(), "a");
      learner->Ready();
    }
    for (const auto& learner : learners) EXPECT_EQ(learner->Receive().form_group().generation(), 1);
    EXPECT_EQ(coordinator_.Receive().task_started().task_id(), "a");
  }

  LearnerAggregator::Options options_;
  FakeCoordinator coordinator_;
  const std::unique_ptr<WorkerSession> session_ = coordinator_.Join();
  std::unique_ptr<LearnerAggregator> aggregator_;
  std::thread running_;
  absl::StatusOr<EndRun> end_ = absl::UnknownError("runs");
  Resources resources_;
};

// Corresponds to DI-engine's test_learner_aggregator.
TEST_F(LearnerAggregatorTest, FourLearnersAreSeenAsOne) {
  Run(4);
  const auto learners = Learners(4);
  EXPECT_EQ(resources_.gpus(), 4);
  EXPECT_EQ(resources_.cpus(), 8);
  EXPECT_EQ(resources_.memory_bytes(), 4000);

  coordinator_.StartLearner("a", /*first_version=*/5);
  for (const auto& learner : learners) {
    const LearnerTask task = learner->Receive().start_task().learner();
    EXPECT_EQ(task.task_id(), "a");
    EXPECT_EQ(task.group_worker(), FakeCoordinator::kWorker) << "policies belong to the group";
    learner->Ready();
  }
  for (size_t i = 0; i < learners.size(); ++i) {
    const FormGroup form = learners[i]->Receive().form_group();
    EXPECT_EQ(form.rank(), static_cast<int>(i));
    EXPECT_EQ(form.world_size(), 4);
    EXPECT_EQ(form.generation(), 1u);
    EXPECT_EQ(form.first_version(), 5u);
  }
  EXPECT_EQ(coordinator_.Receive().task_started().task_id(), "a");

  for (size_t i = 0; i < 4; ++i) learners[i]->Demand(/*sequence=*/i + 3, /*rows=*/2 + (i == 0));
  const LearnerDemand demand = coordinator_.Receive().learner_demand();
  EXPECT_EQ(demand.task_id(), "a");
  EXPECT_EQ(demand.batch_size(), 9);
  EXPECT_EQ(demand.batches(), 2);
  EXPECT_EQ(demand.sequence(), 1u);
  EXPECT_EQ(demand.read(), 0u);

  CoordinatorMessage data;
  data.mutable_learner_data()->set_task_id("a");
  data.mutable_learner_data()->set_sequence(1);
  data.mutable_learner_data()->set_envstep(77);
  data.mutable_learner_data()->add_items(EncodedRows(0, 9));
  data.mutable_learner_data()->add_items(EncodedRows(100, 9));
  coordinator_.Send(data);
  std::vector<std::vector<int64_t>> first;
  for (size_t i = 0; i < 4; ++i) {
    const LearnerData share = learners[i]->Receive().learner_data();
    EXPECT_EQ(share.sequence(), i + 3);
    EXPECT_EQ(share.envstep(), 77);
    ASSERT_EQ(share.items_size(), 2);
    first.push_back(RowsIn(share.items(0)).value());
    EXPECT_EQ(RowsIn(share.items(1)).value().front(), 100 + first.back().front());
  }
  EXPECT_THAT(first, ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4), ElementsAre(5, 6),
                                 ElementsAre(7, 8)));

  // Reports come in any order, and are merged in the order of the ranks.
  for (const size_t i : {3, 1, 0, 2}) learners[i]->Info(6, static_cast<float>(i));
  const LearnerInfo info = coordinator_.Receive().learner_info();
  EXPECT_EQ(info.task_id(), "a");
  EXPECT_EQ(info.learner_step(), 6);
  EXPECT_FALSE(info.learner_done());
  EXPECT_THAT(info.priority(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(info.replay_unique_id(), ElementsAre(0, 10, 20, 30));
  EXPECT_THAT(info.replay_buffer_idx(), ElementsAre(0, 100, 200, 300));

  // If one learner cannot use a chunk, it counts as bad for all.
  WorkerMessage bad;
  bad.mutable_bad_chunks()->set_task_id("a");
  bad.mutable_bad_chunks()->add_chunk()->set_chunk(77);
  learners[2]->Send(bad);
  EXPECT_EQ(coordinator_.Receive().bad_chunks().chunk(0).chunk(), 77);

  // A demand counts as read when all have read it. Only rank 0 publishes policies.
  learners[1]->Policy(8);
  for (size_t i = 0; i < 4; ++i) learners[i]->Demand(i + 4, 2, /*read=*/i == 3 ? 0 : i + 3);
  EXPECT_EQ(coordinator_.Receive().learner_demand().read(), 0u) << "learner 3 has read nothing";
  learners[0]->Policy(7);
  EXPECT_EQ(coordinator_.Receive().policy_version().version(), 7u);
  for (size_t i = 0; i < 4; ++i) learners[i]->Demand(i + 5, 2, /*read=*/i + 3);
  EXPECT_EQ(coordinator_.Receive().learner_demand().read(), 1u);

  coordinator_.CloseTask("a");
  for (const auto& learner : learners) {
    EXPECT_EQ(learner->Receive().close_task().task_id(), "a");
  }
  coordinator_.EndRun("enough");
  for (const auto& learner : learners) EXPECT_EQ(learner->Receive().end_run().reason(), "enough");
  EXPECT_EQ(End().value().reason(), "enough");
}

TEST_F(LearnerAggregatorTest, MessagesThatLearnersMustNotSendAreRefused) {
  Run(1);
  const auto learner = Join("learner-0");
  WorkerMessage message;
  message.mutable_collector_data()->set_task_id("a");
  learner->Send(message);
  learner->Receive();
  EXPECT_THAT(learner->over(),
              StatusIs(absl::StatusCode::kAborted,
                       HasSubstr("expected one that a learner in a group may send")));
  EXPECT_EQ(coordinator_.Receive().resources().gpus(), 0);
}

TEST_F(LearnerAggregatorTest, ATaskAfterWhoseVersionsThereIsNoRoomIsRefused) {
  Run(1);
  coordinator_.StartLearner("a", ~uint64_t{0});
  const WorkerMessage failed = coordinator_.ReceiveUntil(
      [](const WorkerMessage& message) { return message.has_task_failed(); });
  EXPECT_EQ(failed.task_failed().task_id(), "a");
  EXPECT_THAT(failed.task_failed().message(), HasSubstr("version 18446744073709551615"));
}

TEST_F(LearnerAggregatorTest, CollectorsAreToldToJoinTheCoordinator) {
  Run(1);
  EXPECT_THAT(FakeLearner(&coordinator_, "collector-0", Hello::COLLECTOR).joined(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("expected learners")));
}

TEST_F(LearnerAggregatorTest, TheOthersGoOnWhenALearnerIsLost) {
  Run(3);
  auto learners = Learners(3);
  Form(learners);
  learners[1]->Demand(1, 4);  // It belongs to the old generation and is dropped.
  learners[0]->Leave();
  EXPECT_EQ(coordinator_.Receive().resources().gpus(), 2);
  for (const int i : {1, 2}) EXPECT_EQ(learners[i]->Receive().break_group().generation(), 1u);
  learners[1]->Ready(/*generation=*/1, /*train_iter=*/8);
  EXPECT_FALSE(coordinator_.HearsMore());
  // The last learner is one step ahead.
  learners[2]->Ready(/*generation=*/1, /*train_iter=*/9);
  const FormGroup of_1 = learners[1]->Receive().form_group();
  const FormGroup of_2 = learners[2]->Receive().form_group();
  EXPECT_EQ(of_2.rank(), 0);
  EXPECT_EQ(of_1.rank(), 1);
  EXPECT_EQ(of_1.world_size(), 2);
  EXPECT_EQ(of_1.generation(), 2u);
  learners[1]->Demand(2, 4);
  learners[2]->Demand(1, 5);
  EXPECT_EQ(coordinator_.Receive().learner_demand().batch_size(), 9);
  learners[2]->Info(10, 0.5f);
  learners[1]->Info(10, 0.25f);
  EXPECT_THAT(coordinator_.Receive().learner_info().priority(), ElementsAre(0.5f, 0.25f));
  learners[1]->Policy(4);  // It is not rank 0.
  learners[2]->Policy(5);
  EXPECT_EQ(coordinator_.Receive().policy_version().version(), 5u);
}

// The old rank 0 may still be writing a version, so its successor skips that.
TEST_F(LearnerAggregatorTest, TheNextGenerationSkipsOnePolicyVersion) {
  Run(2);
  auto learners = Learners(2);
  Form(learners);
  learners[0]->Policy(3);
  EXPECT_EQ(coordinator_.Receive().policy_version().version(), 3u);
  learners[0]->Leave();
  coordinator_.Receive();
  learners[1]->Receive();
  learners[1]->Ready(1, 8);
  EXPECT_EQ(learners[1]->Receive().form_group().first_version(), 5u);
}

TEST_F(LearnerAggregatorTest, ALearnerThatComesLaterJoinsTheNextGeneration) {
  Run(1);
  auto learners = Learners(1);
  Form(learners);
  learners.push_back(Join("late"));
  EXPECT_EQ(resources_.gpus(), 2);
  EXPECT_FALSE(learners[1]->Receive().start_task().learner().resume());
  learners[1]->Ready();
  EXPECT_EQ(learners[0]->Receive().break_group().generation(), 1u);
  learners[0]->Ready(/*generation=*/1, /*train_iter=*/20);
  EXPECT_EQ(learners[0]->Receive().form_group().rank(), 0)
      << "all copy the state of the learner that has trained";
  EXPECT_EQ(learners[1]->Receive().form_group().rank(), 1);
}

TEST_F(LearnerAggregatorTest, AFailureOnOneLearnerFailsTheTaskWithItsReason) {
  Run(2);
  auto learners = Learners(2);
  Form(learners);
  learners[0]->Fail(absl::StatusCode::kAborted, "another learner could not take this step");
  learners[1]->Fail(absl::StatusCode::kInternal, "the loss is nan");
  const TaskFailed failed = coordinator_.Receive().task_failed();
  EXPECT_EQ(failed.code(), static_cast<int>(absl::StatusCode::kInternal));
  EXPECT_THAT(failed.message(), HasSubstr("learner-1: the loss is nan"));
}

TEST_F(LearnerAggregatorTest, ReportsTheMembersToTheCoordinator) {
  options_.report_period = absl::ZeroDuration();
  Run(2);
  const auto waits_for = [this](const std::string& first, const std::string& second) {
    const WorkerMessage message = coordinator_.ReceiveUntil([&](const WorkerMessage& heard) {
      const auto& members = heard.group_status().member();
      return members.size() == 2 && members[0].waits_for() == first &&
             members[1].waits_for() == second;
    });
    return message.group_status();
  };
  const FakeLearner first(&coordinator_, "learner-0");
  auto second = std::make_unique<FakeLearner>(&coordinator_, "learner-1");
  const GroupStatus joined = waits_for("a task", "a task");
  ASSERT_EQ(joined.member_size(), 2);
  EXPECT_EQ(joined.member(0).name(), "learner-0");
  EXPECT_EQ(joined.member(1).name(), "learner-1");
  EXPECT_EQ(joined.member(1).pid(), 4711);
  EXPECT_EQ(joined.member(1).role(), Hello::LEARNER);
  EXPECT_EQ(joined.member(1).task_id(), "");
  coordinator_.StartLearner("a");
  const GroupStatus starting = waits_for("its own start", "its own start");
  ASSERT_EQ(starting.member_size(), 2);
  EXPECT_EQ(starting.member(0).task_id(), "a");
  second->Receive();
  second->Ready();
  EXPECT_EQ(waits_for("its own start", "the group").member_size(), 2);
  second->Leave();
  const WorkerMessage left = coordinator_.ReceiveUntil(
      [](const WorkerMessage& heard) { return heard.group_status().member_size() == 1; });
  EXPECT_EQ(left.group_status().member(0).name(), "learner-0");
  // Nothing changes, so nothing is reported, for several times the pause between two checks.
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(coordinator_.HearsMore());
}

TEST_F(LearnerAggregatorTest, InvalidBytesFromTheCoordinatorEndTheGroup) {
  Run(1);
  auto learners = Learners(1);
  Form(learners);
  EXPECT_THAT(coordinator_.session()->Send("\xff", kLong), IsOk());
  EXPECT_THAT(End(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cannot parse 1 bytes")));
  learners[0]->Receive();
  EXPECT_THAT(learners[0]->over(),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("no coordinator")));
}

// The learner still has a rank, and the other one waits for it.
TEST_F(LearnerAggregatorTest, ANewGenerationFormsWhenAFailedLearnerLeaves) {
  Run(2);
  auto learners = Learners(2);
  Form(learners);
  learners[0]->Fail(absl::StatusCode::kAborted, "another learner could not take this step");
  learners[0]->Leave();
  EXPECT_EQ(learners[1]->Receive().break_group().generation(), 1u);
  learners[1]->Ready(/*generation=*/1, /*train_iter=*/8);
  EXPECT_EQ(learners[1]->Receive().form_group().world_size(), 1);
}

TEST_F(LearnerAggregatorTest, ADuplicateAnswerIsPassedOnOnce) {
  Run(1);
  auto learners = Learners(1);
  Form(learners);
  for (const uint64_t sequence : {1, 2}) {
    learners[0]->Demand(sequence, 3);
    EXPECT_EQ(coordinator_.Receive().learner_demand().sequence(), sequence);
  }
  CoordinatorMessage data;
  data.mutable_learner_data()->set_task_id("a");
  data.mutable_learner_data()->add_items(EncodedRows(0, 3));
  for (const uint64_t sequence : {1, 1, 2}) {
    data.mutable_learner_data()->set_sequence(sequence);
    coordinator_.Send(data);
  }
  EXPECT_EQ(learners[0]->Receive().learner_data().sequence(), 1u);
  EXPECT_EQ(learners[0]->Receive().learner_data().sequence(), 2u);
}

TEST_F(LearnerAggregatorTest, ALearnerThatSendsInvalidMessagesIsDisconnected) {
  Run(2);
  const auto refuses = [&](const std::string& why, const auto& say) {
    auto learners = Learners(2);
    Form(learners);
    say(learners[0].get());
    EXPECT_TRUE(learners[0]->Receive().message_case() == CoordinatorMessage::MESSAGE_NOT_SET);
    EXPECT_THAT(learners[0]->over(), StatusIs(absl::StatusCode::kAborted, HasSubstr(why)));
    EXPECT_EQ(coordinator_.Receive().resources().gpus(), 1);
    CoordinatorMessage heard;
    do {
      heard = learners[1]->Receive();
    } while (heard.has_group_value());
    EXPECT_EQ(heard.break_group().generation(), 1u);
    coordinator_.CloseTask("a");
    EXPECT_EQ(learners[1]->Receive().close_task().task_id(), "a");
    learners[1]->Leave();
    EXPECT_EQ(coordinator_.Receive().resources().gpus(), 0);
  };
  refuses("a demand for 2 batches",
          [](FakeLearner* learner) { learner->Demand(1, std::numeric_limits<int64_t>::max()); });
  refuses("if all learners of the group",
          [](FakeLearner* learner) { learner->Demand(1, int64_t{1} << 21); });
  refuses("-5 steps", [](FakeLearner* learner) { learner->Info(-5, 0); });
  refuses("priority -1", [](FakeLearner* learner) { learner->Info(5, -1); });
  refuses("a report of 1 chunks", [](FakeLearner* learner) {
    WorkerMessage message;
    message.mutable_bad_chunks()->set_task_id("a");
    message.mutable_bad_chunks()->add_chunk()->set_chunk(-1);
    learner->Send(message);
  });
  refuses("1 priorities for 0 ids", [](FakeLearner* learner) {
    WorkerMessage message;
    message.mutable_learner_info()->set_task_id("a");
    message.mutable_learner_info()->add_priority(1);
    learner->Send(message);
  });
  refuses("version 9000", [](FakeLearner* learner) { learner->Policy(9000); });
  refuses("has left generation 7", [](FakeLearner* learner) { learner->Ready(7); });
  refuses("ready at iteration -9", [](FakeLearner* learner) { learner->Ready(1, -9); });
  refuses("17 values", [](FakeLearner* learner) {
    WorkerMessage message;
    message.mutable_group_value()->set_task_id("a");
    message.mutable_group_value()->set_generation(1);
    for (int i = 0; i < 17; ++i) learner->Send(message);
    for (int i = 0; i < 16; ++i) EXPECT_TRUE(learner->Receive().has_group_value());
  });
}

TEST_F(LearnerAggregatorTest, LosingTheCoordinatorEndsTheGroup) {
  Run(1);
  auto learners = Learners(1);
  Form(learners);
  coordinator_.session()->Close("it is over");
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kAborted, HasSubstr("it is over")));
  learners[0]->Receive();
  EXPECT_THAT(learners[0]->over(),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("no coordinator")));
}

}  // namespace
}  // namespace ding
