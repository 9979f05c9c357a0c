// Runs two learner workers behind an aggregator in one process. Everything is real except for the
// coordinator.
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/adapter/learner_aggregator.h"
#include "ding_worker/adapter/testing/policies.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/segment_wire.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/all_reduce/in_process_all_reduce.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/testing/fake_coordinator.h"
#include "ding_worker/learner/base_learner.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/learner/comm/group_member.h"
#include "ding_worker/policy/policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr absl::Duration kLong = absl::Minutes(1);
constexpr int64_t kChunk = 5;

// One row of data, to which every item refers.
SegmentBatch OneRow() {
  BatchBuilder rows =
      BatchBuilder::Create(
          MakeSpec({Box("obs", {4}), Discrete("action", 3), Scalar("reward", DType::kFloat32)})
              .value(),
          1)
          .value();
  for (float& value : rows.column<float>(0)) value = 0.5f;
  rows.column<int64_t>(1)[0] = 1;
  rows.column<float>(2)[0] = 1;
  BatchBuilder obs = BatchBuilder::Create(MakeSpec({Box("obs", {4})}).value(), 1).value();
  for (float& value : obs.column<float>(0)) value = 0.25f;
  SegmentBatch data;
  data.rows = std::move(rows).Seal(1);
  data.final_obs = std::move(obs).Seal(1);
  data.segments = {{0, 0, 0, 1, SegmentEnd::kTerminated}};
  return data;
}

std::string Items(int64_t rows) {
  const SpecPtr spec =
      MakeSpec({Scalar(kColumnChunk, DType::kInt64), Scalar(kColumnRow, DType::kInt64),
                Scalar(kColumnLength, DType::kInt64), Scalar(kColumnReplayUniqueId, DType::kInt64),
                Scalar(kColumnReplayBufferIdx, DType::kInt64)})
          .value();
  BatchBuilder builder = BatchBuilder::Create(spec, rows).value();
  for (size_t i = 0; i < static_cast<size_t>(rows); ++i) {
    builder.column<int64_t>(0)[i] = kChunk;
    builder.column<int64_t>(1)[i] = 0;
    builder.column<int64_t>(2)[i] = 1;
    builder.column<int64_t>(3)[i] = static_cast<int64_t>(i);
    builder.column<int64_t>(4)[i] = static_cast<int64_t>(i);
  }
  return EncodedBatch(std::move(builder).Seal(rows)).ToString();
}

class DqnTask : public TaskLearner {
 public:
  explicit DqnTask(GroupMember* group) : policy_(MakeTestPolicy(TestPolicy::kDqn, group)) {
    BaseLearner::Options options;
    options.log_policy = false;
    learner_ = BaseLearner::Create(options, policy_->learn_mode(), {}, {}, group).value();
  }
  ILearner* learner() override { return learner_.get(); }
  NamedValues LearnSettings(int64_t /*train_iter*/, int64_t /*envstep*/) override { return {}; }

 private:
  const std::unique_ptr<Policy> policy_;
  std::unique_ptr<ILearner> learner_;
};

class AggregatedLearnersTest : public testing::Test {
 protected:
  // A learner worker on its own thread.
  struct Worker {
    std::unique_ptr<WorkerSession> session;
    std::unique_ptr<BaseCommLearner> learner;
    std::thread thread;
  };

  AggregatedLearnersTest() {
    EXPECT_THAT(store_.Put(ChunkKey(kChunk), EncodedSegments(OneRow()).pieces()), IsOk());
    LearnerAggregator::Options options;
    options.learner_num = 2;
    options.admit_period = absl::ZeroDuration();
    options.server.address = "learners";
    options.server.session.lease = kLong;
    aggregator_ =
        LearnerAggregator::Create(options, session_.get(), coordinator_.transport()).value();
    running_ = std::thread([this] { end_ = aggregator_->Run(); });
  }
  ~AggregatedLearnersTest() override {
    coordinator_.session()->Close("the test is over");
    running_.join();
    for (const auto& worker : workers_) {
      if (worker->thread.joinable()) worker->thread.join();
    }
  }

  Worker* Join(const std::string& name) {
    auto worker = std::make_unique<Worker>();
    Hello hello;
    hello.set_role(Hello::LEARNER);
    hello.set_name(name);
    WorkerSession::Options session_options;
    session_options.session.lease = kLong;
    worker->session =
        WorkerSession::Join(coordinator_.transport(), "learners", hello, session_options).value();
    CommLearnerOptions options;
    options.batch_size = 5;
    options.prefetch_batches = 2;
    options.connect_group = [this](const AllReduceOptions& group, Rendezvous*) {
      return hub_.Connect(group);
    };
    worker->learner = std::make_unique<BaseCommLearner>(
        options, worker->session.get(), &store_,
        [](const LearnerTask&, GroupMember* group) { return std::make_unique<DqnTask>(group); });
    worker->thread = std::thread([raw = worker.get()] {
      raw->learner->Run().status().IgnoreError();
      raw->session->Close("done");
    });
    workers_.push_back(std::move(worker));
    return workers_.back().get();
  }

  // Answers demands until a report has at least `iterations` train iterations; returns that report.
  LearnerInfo ServeUntil(int64_t iterations) {
    return coordinator_
        .ReceiveUntil([&](const WorkerMessage& message) {
          EXPECT_FALSE(message.has_task_failed()) << message.DebugString();
          if (message.has_policy_version()) ++policies_;
          if (message.has_learner_demand()) {
            rows_demanded_ = message.learner_demand().batch_size();
            CoordinatorMessage answer;
            LearnerData* const data = answer.mutable_learner_data();
            data->set_task_id(message.learner_demand().task_id());
            data->set_sequence(message.learner_demand().sequence());
            for (int i = 0; i < message.learner_demand().batches(); ++i) {
              data->add_items(Items(message.learner_demand().batch_size()));
            }
            coordinator_.Send(answer);
          }
          return message.has_task_failed() || (message.learner_info().stalled().empty() &&
                                               message.learner_info().learner_step() >= iterations);
        })
        .learner_info();
  }

  MemStore store_;
  InProcessAllReduceHub hub_;
  FakeCoordinator coordinator_;
  const std::unique_ptr<WorkerSession> session_ = coordinator_.Join();
  std::unique_ptr<LearnerAggregator> aggregator_;
  std::thread running_;
  absl::StatusOr<EndRun> end_ = absl::UnknownError("runs");
  std::vector<std::unique_ptr<Worker>> workers_;
  int64_t rows_demanded_ = 0;
  int policies_ = 0;
};

TEST_F(AggregatedLearnersTest, TheGroupGoesOnWhenALearnerIsLostAndWhenOneJoins) {
  Join("learner-0");
  Join("learner-1");
  coordinator_.StartLearner("a");
  LearnerInfo info = ServeUntil(20);
  EXPECT_EQ(rows_demanded_, 5) << "expected 3 rows of one learner and 2 of the other";
  EXPECT_EQ(info.priority_size(), 5) << "expected the rows of both learners";
  EXPECT_GT(policies_, 0);

  // One of the two leaves. The other continues from its state, with all rows.
  workers_[0]->learner->Close();
  const int policies = policies_;
  info = ServeUntil(info.learner_step() + 40);
  EXPECT_EQ(rows_demanded_, 5);
  EXPECT_EQ(info.priority_size(), 5);
  EXPECT_GT(policies_, policies) << "the remaining learner must publish policies";

  Join("learner-2");
  info = ServeUntil(info.learner_step() + 200);
  EXPECT_EQ(rows_demanded_, 5);
  coordinator_.EndRun("enough");
}

TEST_F(AggregatedLearnersTest, AnotherTaskCanFollowAClosedTask) {
  Join("learner-0");
  Join("learner-1");
  coordinator_.StartLearner("a");
  ServeUntil(10);
  coordinator_.CloseTask("a");
  coordinator_.StartLearner("b", /*first_version=*/50);
  const LearnerInfo info = coordinator_
                               .ReceiveUntil([](const WorkerMessage& message) {
                                 return message.learner_demand().task_id() == "b";
                               })
                               .learner_info();
  EXPECT_EQ(info.learner_step(), 0);
  coordinator_.EndRun("enough");
}

}  // namespace
}  // namespace ding
