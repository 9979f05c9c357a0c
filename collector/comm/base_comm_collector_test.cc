#include "ding_worker/collector/comm/base_comm_collector.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/comm/collector_slave.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/segment_wire.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/testing/fake_coordinator.h"
#include "ding_worker/interaction/testing/worker_fuzz.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr absl::Duration kLong = absl::Minutes(1);

// Its Put() fails as told, by its number from 1.
class FlakyStore : public MemStore {
 public:
  absl::Status Put(absl::string_view key, absl::Span<const absl::string_view> pieces) override {
    const absl::Status status = on_put == nullptr ? absl::OkStatus() : on_put(++puts_);
    return status.ok() ? MemStore::Put(key, pieces) : status;
  }

  std::function<absl::Status(int)> on_put;  // set before use

 private:
  std::atomic<int> puts_{0};
};

// One row, whose reward is `reward`.
SegmentBatch OneRow(float reward) {
  const SpecPtr rows =
      MakeSpec({Box("obs", {}), Discrete("action", 9), Scalar("reward", DType::kFloat32)}).value();
  BatchBuilder builder = BatchBuilder::Create(rows, 1).value();
  builder.column<float>(0)[0] = 0;
  builder.column<int64_t>(1)[0] = 0;
  builder.column<float>(2)[0] = reward;
  BatchBuilder obs = BatchBuilder::Create(MakeSpec({Box("obs", {})}).value(), 1).value();
  obs.column<float>(0)[0] = 1;
  SegmentBatch data;
  data.rows = std::move(builder).Seal(1);
  data.final_obs = std::move(obs).Seal(1);
  data.segments = {{0, 0, 0, 1, SegmentEnd::kTerminated}};
  return data;
}

// Does what a test says, with the link.
class ScriptedCollector : public BaseParallelCollector {
 public:
  using Script = std::function<absl::Status(CollectorLink*, const std::function<bool()>& closed)>;

  ScriptedCollector(Script script, CollectorLink* link) : script_(std::move(script)), link_(link) {}
  absl::Status Run() override {
    const absl::Status status = script_(link_, [this] { return closed(); });
    done_ = status.ok();
    return status;
  }
  CollectorFinishInfo GetFinishInfo() const override {
    CollectorFinishInfo info;
    info.collector_done = done_;
    info.train_iter = 5;
    info.episode_return = {1, 2};
    return info;
  }

 private:
  const Script script_;
  CollectorLink* const link_;
  bool done_ = false;
};

class ScriptedTask : public TaskCollector {
 public:
  ScriptedTask(ScriptedCollector::Script script, CollectorLink* link)
      : collector_(std::move(script), link) {}
  BaseParallelCollector* collector() override { return &collector_; }

 private:
  ScriptedCollector collector_;
};

class BaseCommCollectorTest : public testing::Test {
 protected:
  void Run(TaskCollectorFactory factory) {
    collector_ = std::make_unique<BaseCommCollector>(worker_.get(), &store_, std::move(factory),
                                                     /*retry=*/absl::Milliseconds(5));
    running_ = std::thread([this] { end_ = collector_->Run(); });
  }
  void RunScript(ScriptedCollector::Script script) {
    Run([script](const CollectorTask&, CollectorLink* link) {
      return std::make_unique<ScriptedTask>(script, link);
    });
  }
  absl::StatusOr<EndRun> End() {
    if (running_.joinable()) running_.join();
    return end_;
  }
  void TearDown() override {
    coordinator_.session()->Close("the test is over");
    End().IgnoreError();
  }

  // Up to the end of the task, what came: announced rewards, stalls, the end.
  struct Heard {
    std::vector<uint64_t> sequences;
    std::vector<float> rewards;
    std::vector<std::string> stalls;
    WorkerMessage end;
  };
  Heard HearTask() {
    Heard heard;
    heard.end = coordinator_.ReceiveUntil([&](const WorkerMessage& message) {
      if (message.has_collector_data()) Hear(message.collector_data(), &heard);
      return message.has_collector_finished() || message.has_task_failed();
    });
    return heard;
  }
  void Hear(const CollectorData& data, Heard* heard) {
    if (data.items().empty()) {
      heard->stalls.push_back(data.progress().stalled());
      return;
    }
    heard->sequences.push_back(data.sequence());
    const Batch items = DecodeBatch(data.items()).value();
    std::string bytes;
    ASSERT_THAT(store_.Get(ChunkKey(items.column<int64_t>("chunk")[0]), &bytes), IsOk());
    heard->rewards.push_back(DecodeSegments(bytes).value().rows.column<float>("reward")[0]);
    coordinator_.Acknowledge(data.task_id(), data.sequence());
  }
  std::vector<std::string> Stored() { return store_.List("").value(); }

  FakeCoordinator coordinator_;
  const std::unique_ptr<WorkerSession> worker_ = coordinator_.Join();
  FlakyStore store_;
  std::unique_ptr<BaseCommCollector> collector_;
  std::thread running_;
  absl::StatusOr<EndRun> end_ = absl::UnknownError("runs");
};

absl::Status SendRows(CollectorLink* link, int count) {
  for (int i = 1; i <= count; ++i) {
    const absl::Status sent = link->SendData(OneRow(static_cast<float>(i)), {});
    if (!sent.ok()) return sent;
  }
  return absl::OkStatus();
}

// Waits for its close, as a collector does between its steps.
absl::Status PlayUntilClosed(const std::function<bool()>& closed) {
  while (!closed()) absl::SleepFor(absl::Milliseconds(1));
  return absl::CancelledError("closed");
}

TEST_F(BaseCommCollectorTest, StoresThenAnnouncesThenReports) {
  RunScript([](CollectorLink* link, const auto&) { return SendRows(link, 20); });
  coordinator_.StartCollector("a");
  const Heard heard = HearTask();
  ASSERT_THAT(heard.rewards, SizeIs(20));
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(heard.sequences[i], i + 1);
    EXPECT_EQ(heard.rewards[i], static_cast<float>(i) + 1);
  }
  EXPECT_THAT(heard.stalls, IsEmpty());
  const CollectorFinished& finished = heard.end.collector_finished();
  EXPECT_EQ(finished.task_id(), "a");
  EXPECT_TRUE(finished.collector_done());
  EXPECT_EQ(finished.train_iter(), 5);
  EXPECT_THAT(finished.episode_return(), ElementsAre(1, 2));
  EXPECT_EQ(Stored().front(), ChunkKey(ChunkNumber(FakeCoordinator::kWorker, 1)));

  coordinator_.StartCollector("b");
  EXPECT_EQ(HearTask().sequences.front(), 21u) << "numbers are of the worker";
  coordinator_.EndRun("over");
  EXPECT_EQ(End().value().reason(), "over");
}

TEST_F(BaseCommCollectorTest, StagesAreMeasured) {
  constexpr int64_t kCollecting = 20'000'000;  // nanoseconds
  RunScript([](CollectorLink* link, const auto&) {
    absl::SleepFor(absl::Nanoseconds(kCollecting));
    return SendRows(link, 3);
  });
  coordinator_.StartCollector("a");
  HearTask();
  CoordinatorMessage evaluation;
  evaluation.mutable_start_task()->mutable_collector()->set_task_id("b");
  evaluation.mutable_start_task()->mutable_collector()->set_eval_flag(true);
  coordinator_.Send(evaluation);
  HearTask();
  coordinator_.EndRun("over");
  EXPECT_THAT(End(), IsOk());
  std::vector<std::string> passes;
  for (const auto& [name, times] : collector_->stage_times()) {
    passes.push_back(absl::StrCat(
        name, " ", std::accumulate(times.counts().begin(), times.counts().end(), int64_t{0})));
    EXPECT_GE(times.nanos(), name == "push" ? 1 : kCollecting) << name;
  }
  EXPECT_THAT(passes, ElementsAre("collect 6", "push 6", "evaluate 1"));
}

TEST_F(BaseCommCollectorTest, PausesForAFullOrMissingStoreAndLosesNothing) {
  store_.on_put = [](int put) {
    if (put >= 2 && put < 5) return absl::ResourceExhaustedError("no space left");
    if (put >= 7 && put < 9) return absl::UnavailableError("the disk is away");
    return absl::OkStatus();
  };
  RunScript([](CollectorLink* link, const auto&) { return SendRows(link, 5); });
  coordinator_.StartCollector("a");
  const Heard heard = HearTask();
  EXPECT_THAT(heard.rewards, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(heard.sequences, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(heard.stalls,
              ElementsAre(AllOf(HasSubstr("takes no data"), HasSubstr("no space left")), "",
                          HasSubstr("the disk is away"), ""));
  EXPECT_TRUE(heard.end.has_collector_finished());
  EXPECT_THAT(Stored(), SizeIs(5));
}

TEST_F(BaseCommCollectorTest, ATaskClosedWhileTheStoreIsFullEnds) {
  store_.on_put = [](int) { return absl::ResourceExhaustedError("no space left"); };
  RunScript([](CollectorLink* link, const auto&) { return SendRows(link, 1); });
  coordinator_.StartCollector("a");
  coordinator_.ReceiveUntil([](const WorkerMessage& message) {
    return message.collector_data().progress().has_stalled();
  });
  coordinator_.CloseTask("a");
  EXPECT_FALSE(HearTask().end.collector_finished().collector_done());
  EXPECT_THAT(Stored(), IsEmpty());
}

TEST_F(BaseCommCollectorTest, AnotherErrorOfTheStoreFailsTheTask) {
  store_.on_put = [](int) { return absl::PermissionDeniedError("read-only"); };
  RunScript([](CollectorLink* link, const auto&) { return SendRows(link, 1); });
  coordinator_.StartCollector("a");
  const TaskFailed failed = HearTask().end.task_failed();
  EXPECT_EQ(failed.code(), static_cast<int>(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(failed.message(), HasSubstr("read-only"));
}

// A chunk that was stored and could not be announced is deleted again.
TEST_F(BaseCommCollectorTest, ChunksThatWereNotAnnouncedAreDeleted) {
  absl::Status last;
  RunScript([&last](CollectorLink* link, const auto&) {
    last = SendRows(link, CollectorProtocol::kMaxUnacknowledged + 1);
    return last;
  });
  coordinator_.StartCollector("a");
  for (uint64_t i = 0; i <= CollectorProtocol::kMaxUnacknowledged; ++i) coordinator_.Receive();
  coordinator_.CloseTask("a");
  EXPECT_TRUE(HearTask().end.has_collector_finished());
  EXPECT_THAT(last, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(Stored(), SizeIs(CollectorProtocol::kMaxUnacknowledged));
}

// As a coordinator does when the learner's task ends.
TEST_F(BaseCommCollectorTest, TheNextTaskMayStartRightAfterAClose) {
  std::atomic<int> runs{0};
  RunScript([&runs](CollectorLink* link, const auto& closed) {
    if (++runs > 1) return SendRows(link, 2);
    const absl::Status sent = SendRows(link, CollectorProtocol::kMaxUnacknowledged);
    return sent.ok() ? PlayUntilClosed(closed) : sent;
  });
  coordinator_.StartCollector("a");
  for (uint64_t i = 0; i <= CollectorProtocol::kMaxUnacknowledged; ++i) coordinator_.Receive();
  coordinator_.CloseTask("a");
  coordinator_.StartCollector("b");
  EXPECT_EQ(HearTask().end.collector_finished().task_id(), "a");
  const Heard heard = HearTask();
  EXPECT_EQ(heard.end.collector_finished().task_id(), "b");
  EXPECT_TRUE(heard.end.collector_finished().collector_done());
  EXPECT_THAT(heard.rewards, ElementsAre(1, 2));
}

TEST_F(BaseCommCollectorTest, GetsTheNewestStoredPolicy) {
  const EncodedBatch model =
      EncodeState([](StateWriter* writer) { return writer->WriteDouble("weight", 2.5); }).value();
  double weight = 0;
  uint64_t version = 0;
  bool newer = true;
  RunScript([&](CollectorLink* link, const auto&) {
    const auto update = link->GetPolicyUpdate(0, 0, kLong);  // the first is deleted already
    if (!update.ok()) return update.status();
    version = (*update)->version;
    weight = (*update)->model->ReadDouble("weight").value();
    newer = link->GetPolicyUpdate(0, version, absl::ZeroDuration()).value().has_value();
    return absl::OkStatus();
  });
  ASSERT_THAT(store_.Put(PolicyKey("policy_0", 2, 7), model.pieces()), IsOk());
  coordinator_.StartCollector("a");
  coordinator_.Publish("policy_0", 1, PolicyKey("policy_0", 1, 7));
  coordinator_.Publish("policy_0", 2, PolicyKey("policy_0", 2, 7));
  EXPECT_TRUE(HearTask().end.has_collector_finished());
  EXPECT_EQ(version, 2u);
  EXPECT_EQ(weight, 2.5);
  EXPECT_FALSE(newer);
}

TEST_F(BaseCommCollectorTest, WaitsUntilADamagedPolicyIsReplaced) {
  const EncodedBatch model =
      EncodeState([](StateWriter* writer) { return writer->WriteDouble("weight", 2.5); }).value();
  std::vector<uint64_t> versions;
  bool acts_on = false;
  RunScript([&](CollectorLink* link, const auto&) {
    // The next version takes its place.
    auto update = link->GetPolicyUpdate(0, 0, kLong);
    if (!update.ok()) return update.status();
    versions.push_back((*update)->version);
    // A damaged one does not stop who acts by another.
    coordinator_.Publish("policy_0", 3, "policy/policy_0/3");
    absl::StatusOr<std::optional<PolicyUpdate>> newer = absl::UnknownError("");
    for (int i = 0; i < 50; ++i) {
      newer = link->GetPolicyUpdate(0, 2, absl::ZeroDuration());
      if (!newer.ok() || newer->has_value()) break;
      absl::SleepFor(absl::Milliseconds(1));
    }
    acts_on = newer.ok() && !newer->has_value();
    // It is put there again: a learner does that when it gets no data.
    const absl::Status put = store_.Put("policy/policy_0/3", model.pieces());
    if (!put.ok()) return put;
    do {
      update = link->GetPolicyUpdate(0, 2, absl::Milliseconds(1));
      if (!update.ok()) return update.status();
    } while (!update->has_value());
    versions.push_back((*update)->version);
    return absl::OkStatus();
  });
  for (const char* const key : {"policy/policy_0/1", "policy/policy_0/3"}) {
    ASSERT_THAT(store_.Put(key, {absl::string_view("garbage")}), IsOk());
  }
  ASSERT_THAT(store_.Put("policy/policy_0/2", model.pieces()), IsOk());
  coordinator_.StartCollector("a");
  coordinator_.Publish("policy_0", 1, "policy/policy_0/1");
  const CollectorData stall =
      coordinator_
          .ReceiveUntil([](const WorkerMessage& message) { return message.has_collector_data(); })
          .collector_data();
  EXPECT_THAT(stall.progress().stalled(), HasSubstr("the store gives no policy"));
  coordinator_.Publish("policy_0", 2, "policy/policy_0/2");
  EXPECT_TRUE(HearTask().end.has_collector_finished());
  EXPECT_THAT(versions, ElementsAre(2, 3));
  EXPECT_TRUE(acts_on);
}

class GameCollector : public BaseParallelCollector {
 public:
  absl::Status Run() override { return absl::OkStatus(); }
  CollectorFinishInfo GetFinishInfo() const override {
    CollectorFinishInfo info;
    info.collector_done = true;
    info.is_game = true;
    info.episode_return = {1, 0, -2, 0.5};
    return info;
  }
};

class GameTask : public TaskCollector {
 public:
  BaseParallelCollector* collector() override { return &collector_; }

 private:
  GameCollector collector_;
};

TEST_F(BaseCommCollectorTest, TheSignOfAReturnIsTheResultOfAGame) {
  Run([](const CollectorTask&, CollectorLink*) -> absl::StatusOr<std::unique_ptr<TaskCollector>> {
    return std::make_unique<GameTask>();
  });
  coordinator_.StartCollector("a");
  EXPECT_THAT(HearTask().end.collector_finished().game_result(),
              ElementsAre(TaskGameResult::WINS, TaskGameResult::DRAWS, TaskGameResult::LOSSES,
                          TaskGameResult::WINS));
}

// No newer policy will come from a player that does not learn.
TEST_F(BaseCommCollectorTest, APinnedPolicyThatIsGoneIsAnError) {
  RunScript(
      [](CollectorLink* link, const auto&) { return link->GetPolicyUpdate(1, 0, kLong).status(); });
  CoordinatorMessage message;
  CollectorTask* const task = message.mutable_start_task()->mutable_collector();
  task->set_task_id("a");
  task->set_policy_id("policy_0");
  task->add_player()->set_update_policy(true);
  PolicyVersion* const pinned = task->add_player()->mutable_policy();
  pinned->set_policy_id("policy_0");
  pinned->set_version(2);
  pinned->set_key(PolicyKey("policy_0", 2, 7));
  coordinator_.Send(message);
  const TaskFailed failed = HearTask().end.task_failed();
  EXPECT_EQ(failed.code(), static_cast<int>(absl::StatusCode::kNotFound));
  EXPECT_THAT(failed.message(), HasSubstr("policy_0"));
}

TEST_F(BaseCommCollectorTest, LosingTheCoordinatorEndsTaskAndRun) {
  RunScript([](CollectorLink* link, const auto&) {
    return SendRows(link, CollectorProtocol::kMaxUnacknowledged + 1);
  });
  coordinator_.StartCollector("a");
  for (uint64_t i = 0; i <= CollectorProtocol::kMaxUnacknowledged; ++i) coordinator_.Receive();
  coordinator_.session()->Close("enough");
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kAborted, HasSubstr("enough")));
}

TEST_F(BaseCommCollectorTest, CloseLeavesTheRun) {
  RunScript([](CollectorLink*, const auto& closed) { return PlayUntilClosed(closed); });
  coordinator_.StartCollector("a");
  EXPECT_TRUE(coordinator_.Receive().has_task_started());
  collector_->Close();
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kCancelled));
}

// A random message of a coordinator to a collector.
CoordinatorMessage RandomMessage(Mutator* mutator) {
  CoordinatorMessage message;
  Rng* const rng = mutator->rng();
  const std::string task_id = absl::StrCat("task_", rng->UniformInt(3));
  switch (rng->UniformInt(8)) {
    case 0:
    case 1: {
      CollectorTask* const task = message.mutable_start_task()->mutable_collector();
      task->set_task_id(task_id);
      task->set_policy_id("policy_0");
      break;
    }
    case 2:
      message.mutable_close_task()->set_task_id(task_id);
      break;
    case 3:
    case 4:
      message.mutable_policy_version()->set_policy_id("policy_0");
      message.mutable_policy_version()->set_version(rng->UniformInt(9));
      message.mutable_policy_version()->set_key("policy/policy_0/1");
      break;
    default:
      message.mutable_collector_data_ack()->set_task_id(task_id);
      message.mutable_collector_data_ack()->set_sequence(1 + rng->UniformInt(20));
  }
  return message;
}

// ---------------------------------------------------------------------------------- own steps

// Overrides each step, and notes it. Its policies are in no store.
class OwnStepsCollector : public BaseCommCollector {
 public:
  using BaseCommCollector::BaseCommCollector;

  std::vector<std::string> steps;
  // Called in each step. The step returns its error.
  std::function<absl::Status(const std::string& step)> on_step;

 private:
  absl::Status Note(const std::string& step) {
    steps.push_back(step);
    return on_step == nullptr ? absl::OkStatus() : on_step(step);
  }
  absl::StatusOr<std::unique_ptr<TaskCollector>> CreateCollector(const CollectorTask& task,
                                                                 CollectorLink* link) override {
    const absl::Status status = Note("CreateCollector");
    if (absl::IsNotFound(status)) return nullptr;
    if (!status.ok()) return status;
    return BaseCommCollector::CreateCollector(task, link);
  }
  absl::StatusOr<PolicyUpdate> GetPolicyUpdateInfo(const PolicyVersion& version) override {
    const absl::Status status = Note("GetPolicyUpdateInfo");
    if (!status.ok()) return status;
    PolicyUpdate update;
    update.version = version.version();
    update.train_iter = 77;
    update.model = std::make_shared<StateDict>();
    return update;
  }
  absl::Status SendStepData(int64_t chunk, const SegmentBatch& data) override {
    const absl::Status status = Note("SendStepData");
    return status.ok() ? BaseCommCollector::SendStepData(chunk, data) : status;
  }
  absl::Status DropStepData(int64_t /*chunk*/) override { return Note("DropStepData"); }
  absl::Status SendMetadata(std::string items, const CollectorProgress& progress) override {
    const absl::Status status = Note("SendMetadata");
    return status.ok() ? slave()->Announce(std::move(items), progress) : status;
  }
};

class OwnStepsTest : public BaseCommCollectorTest {
 protected:
  // A task takes a policy and sends two rows.
  OwnStepsTest() {
    auto own = std::make_unique<OwnStepsCollector>(
        worker_.get(), &store_,
        [](const CollectorTask&, CollectorLink* link) {
          return std::make_unique<ScriptedTask>(
              [](CollectorLink* to, const auto&) {
                const auto update = to->GetPolicyUpdate(/*player=*/0, 0, kLong);
                if (!update.ok()) return update.status();
                EXPECT_EQ((*update)->train_iter, 77);
                return SendRows(to, 2);
              },
              link);
        },
        /*retry=*/absl::Milliseconds(5));
    own_ = own.get();
    collector_ = std::move(own);
  }
  Heard RunTask(const std::string& task_id) {
    if (!running_.joinable()) running_ = std::thread([this] { end_ = collector_->Run(); });
    coordinator_.StartCollector(task_id);
    coordinator_.Publish("policy_0", /*version=*/1, "in no store");
    return HearTask();
  }
  OwnStepsCollector* own_ = nullptr;
};

TEST_F(OwnStepsTest, AreCalledInTheOrderOfATask) {
  const Heard heard = RunTask("a");
  EXPECT_TRUE(heard.end.has_collector_finished()) << heard.end.task_failed().message();
  EXPECT_THAT(heard.rewards, ElementsAre(1, 2));
  EXPECT_THAT(own_->steps, ElementsAre("CreateCollector", "GetPolicyUpdateInfo", "SendStepData",
                                       "SendMetadata", "SendStepData", "SendMetadata"));
}

TEST_F(OwnStepsTest, SendStepDataThatIsUnavailable_IsCalledAgain) {
  int calls = 0;
  own_->on_step = [&calls](const std::string& step) {
    return step == "SendStepData" && ++calls < 3 ? absl::UnavailableError("no medium")
                                                 : absl::OkStatus();
  };
  const Heard heard = RunTask("a");
  EXPECT_THAT(heard.rewards, ElementsAre(1, 2));
  EXPECT_THAT(heard.stalls, ElementsAre(HasSubstr("no medium"), ""));
}

TEST_F(OwnStepsTest, ErrorsAndExceptions_FailTheTask) {
  std::string failing;
  bool throws = false;
  own_->on_step = [&](const std::string& step) -> absl::Status {
    if (step != failing) return absl::OkStatus();
    if (throws) throw std::runtime_error("odd");
    return absl::InternalError(step + " is odd");
  };
  for (const char* const step :
       {"CreateCollector", "GetPolicyUpdateInfo", "SendStepData", "SendMetadata"}) {
    for (const bool exception : {false, true}) {
      failing = step;
      throws = exception;
      own_->steps.clear();
      const Heard heard = RunTask("a");
      EXPECT_THAT(heard.end.task_failed().message(), AllOf(HasSubstr(step), HasSubstr("odd")));
      const bool sends = failing == "SendStepData" || failing == "SendMetadata";
      EXPECT_EQ(own_->steps.back() == "DropStepData", sends) << "a chunk that is not announced";
    }
  }
}

TEST_F(OwnStepsTest, CreateCollectorThatMakesNone_FailsTheTask) {
  own_->on_step = [](const std::string&) { return absl::NotFoundError("none"); };
  EXPECT_EQ(RunTask("a").end.task_failed().message(),
            "CreateCollector() has returned no collector");
}

TEST(BaseCommCollectorFuzz, TheRunEndsAfterRandomMessages) {
  FuzzWorker(RandomMessage, [](WorkerSession* session) {
    MemStore store;
    const auto script = [](CollectorLink* link, const auto&) {
      link->GetPolicyUpdate(/*player=*/0, 0, absl::Milliseconds(1)).status().IgnoreError();
      return SendRows(link, 3);
    };
    BaseCommCollector collector(
        session, &store,
        [&script](const CollectorTask&, CollectorLink* link) {
          return std::make_unique<ScriptedTask>(script, link);
        },
        /*retry=*/absl::Milliseconds(1));
    return collector.Run();
  });
}

}  // namespace
}  // namespace ding
