// Random runs of the logic of an aggregator (group_core.h: no threads, no connections) between a coordinator and learners that send valid and invalid
// messages. Whatever they send, the aggregator must keep working, tell the coordinator only what a
// learner may say, and give each drawn row to exactly one learner. At the end of each run,
// well-behaved learners must be able to train together.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/adapter/group_core.h"
#include "ding_worker/adapter/group_task.h"
#include "ding_worker/adapter/testing/random_learner.h"
#include "ding_worker/adapter/testing/rows.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/testing/message_mutator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Each;
using testing::Ge;

constexpr size_t kMaxLearners = 4;
// A coordinator that gets more demands than this ends the session.
constexpr size_t kMaxWaitingDemands = 64;
constexpr size_t kMaxUnreadDemands = 1024;

// The priority, unique id and buffer index of a row.
using Triple = std::tuple<float, int64_t, int64_t>;

std::vector<Triple> TriplesOf(const LearnerInfo& info) {
  std::vector<Triple> triples;
  for (int i = 0; i < info.priority_size(); ++i) {
    triples.emplace_back(info.priority(i), info.replay_unique_id(i), info.replay_buffer_idx(i));
  }
  return triples;
}

Hello LearnerHello(int number) {
  Hello hello;
  hello.set_role(Hello::LEARNER);
  hello.set_name(absl::StrCat("learner-", number));
  hello.mutable_resources()->set_cpus(2);
  hello.mutable_resources()->set_memory_bytes(1000);
  hello.mutable_resources()->set_gpus(1);
  return hello;
}

class RandomRun {
 public:
  explicit RandomRun(Mutator* mutator) : mutator_(mutator), rng_(mutator->rng()) {
    GroupTask::Options options;
    options.learner_num = 2;
    options.connect_timeout = absl::Seconds(10);
    options.form_timeout = absl::Seconds(5);
    options.admit_period = absl::Seconds(3);
    options.clock = &clock_;
    Welcome welcome;
    welcome.set_worker(RandomLearner::kAggregator);
    welcome.set_run("run-1");
    core_.emplace(
        options, /*report_period=*/absl::Seconds(1), welcome,
        [this](uint32_t worker, const CoordinatorMessage& message) {
          const auto learner = Find(worker);
          if (learner != learners_.end()) (*learner)->Take(message);
        },
        [this](const WorkerMessage& message) { TakeUp(message); });
    // In a third of the runs all behave well, and are only lost now and then.
    constexpr uint64_t kOneIn[] = {0, 16, 4};
    wild_one_in_ = kOneIn[rng_->UniformInt(3)];
  }

  void Step() {
    const uint64_t what = mutator_->rng()->UniformInt(30);
    if (learners_.empty() || (what == 0 && learners_.size() < kMaxLearners)) {
      Join();
    } else if (what == 1 && rng_->UniformInt(3) == 0) {
      Lose(learners_[rng_->UniformInt(learners_.size())]->worker());
    } else if (what == 2) {
      clock_.Advance(absl::Seconds(static_cast<int64_t>(rng_->UniformInt(6))));
    } else if (what < 10) {
      CoordinatorSays();
    } else {
      LearnerSays(learners_[rng_->UniformInt(learners_.size())].get());
    }
    Settle();
  }

  // Checks that well-behaved learners can still train together, whatever has happened before.
  void CheckEnd() {
    wild_one_in_ = 0;
    while (!learners_.empty()) Lose(learners_[0]->worker());
    Settle();
    Start("last");
    Settle();
    for (int i = 0; i < 2; ++i) Join(LearnerHello(i));
    Settle();
    for (const auto& learner : learners_) {
      WorkerMessage message;
      ASSERT_TRUE(learner->has_task());
      learner->Ready(message.mutable_group_ready());
      Say(learner.get(), message);
    }
    Settle();
    for (int step = 0; step < 3; ++step) Learn(/*done=*/step == 2);
    EXPECT_EQ(last_info_.learner_step(), 1003);
    EXPECT_TRUE(last_info_.learner_done());
    EXPECT_EQ(last_info_.priority_size(), 16) << "two batches of 4 + 4 rows";
    CoordinatorMessage end;
    end.mutable_end_run()->set_reason("over");
    core_->TakeFromCoordinator(end);
    ASSERT_TRUE(core_->end().has_value());
    EXPECT_EQ(core_->end()->reason(), "over");
  }

  // Counts over all runs. They show that the runs were not idle.
  static int64_t generations;
  static int64_t rows_given;
  static int64_t infos;
  static int64_t policies;
  static int64_t lost;
  static int64_t reports;

 private:
  struct Asked {
    int64_t batch_size = 0;
    int32_t batches = 0;
    std::string task_id;
  };

  bool Wild() { return wild_one_in_ > 0 && rng_->UniformInt(wild_one_in_) == 0; }

  void Join() {
    Hello hello = LearnerHello(++last_name_);
    if (Wild()) MutateMessage(mutator_, &hello);
    Join(hello);
  }
  void Join(const Hello& hello) {
    // The server refuses other ones, and keeps operators to itself.
    if (hello.role() != Hello::LEARNER || !CheckHelloFields(hello).ok()) return;
    const absl::StatusOr<uint32_t> worker = core_->Admit(hello);
    if (!worker.ok()) return;
    learners_.push_back(std::make_unique<RandomLearner>(*worker, hello));
    core_->Join(*worker, hello, "peer");
  }
  std::vector<std::unique_ptr<RandomLearner>>::iterator Find(uint32_t worker) {
    return std::find_if(learners_.begin(), learners_.end(),
                        [worker](const auto& learner) { return learner->worker() == worker; });
  }
  void Lose(uint32_t worker, const absl::Status& why = absl::AbortedError("left")) {
    learners_.erase(Find(worker));
    core_->Lose(worker, why);
  }
  // A learner that sends something invalid is lost.
  void Say(RandomLearner* learner, const WorkerMessage& message) {
    learner->NoteSaid(message);
    const absl::Status status = core_->TakeFromLearner(learner->worker(), message);
    if (status.ok()) return;
    ++lost;
    Lose(learner->worker(), status);
  }

  void LearnerSays(RandomLearner* learner) {
    WorkerMessage message = learner->Says(rng_);
    if (Wild()) MutateMessage(mutator_, &message);
    if (Wild() && rng_->UniformInt(2) == 0) {
      const absl::StatusOr<WorkerMessage> mutant =
          ParseWorkerMessage(mutator_->Mutate(message.SerializeAsString()));
      if (!mutant.ok()) return;
      message = *mutant;
    }
    // The server answers questions itself.
    if (message.message_case() == WorkerMessage::MESSAGE_NOT_SET || message.has_status_request() ||
        message.has_operator_request()) {
      return;
    }
    if (message.has_learner_info()) {
      for (const Triple& triple : TriplesOf(Paired(message.learner_info()))) said_.insert(triple);
    }
    Say(learner, message);
  }
  // The report, or an empty one if its lists have different lengths: the aggregator refuses such
  // reports.
  static LearnerInfo Paired(const LearnerInfo& info) {
    const bool paired = info.priority_size() == info.replay_unique_id_size() &&
                        info.priority_size() == info.replay_buffer_idx_size();
    return paired ? info : LearnerInfo();
  }

  void Start(const std::string& task_id) {
    CoordinatorMessage message;
    LearnerTask* const task = message.mutable_start_task()->mutable_learner();
    task->set_task_id(task_id);
    task->set_buffer_id("buffer_0");
    task->set_policy_id("policy_0");
    task->set_first_version(newest_version_ + 1);
    task->set_resume(rng_->UniformInt(4) == 0);
    Give(message);
  }
  void Give(const CoordinatorMessage& message) {
    const StartTask& start = message.start_task();
    if (!start.has_learner()) {
      refused_.insert(start.collector().task_id());
    } else if (!CheckVersion(start.learner().first_version()).ok()) {
      refused_.insert(start.learner().task_id());
    } else {
      TaskIsOver();
      present_ = start.learner();
    }
    core_->TakeFromCoordinator(message);
  }

  void CoordinatorSays() {
    CoordinatorMessage message;
    const uint64_t what = rng_->UniformInt(24);
    if (!present_.has_value() || what == 0) {
      return Start(absl::StrCat("task_", ++last_task_));
    }
    if (what == 1) {
      message.mutable_close_task()->set_task_id(present_->task_id());
    } else if (what == 2 && wild_one_in_ > 0) {
      Noise(&message);
    } else {
      if (!Answer(message.mutable_learner_data())) return;
    }
    if (Wild()) MutateMessage(mutator_, &message);
    if (message.has_learner_data()) sent_ = message.learner_data();
    if (message.has_close_task() && message.close_task().task_id() == present_->task_id()) {
      TaskIsOver();
    }
    // An empty message would end the run.
    if (message.message_case() == CoordinatorMessage::MESSAGE_NOT_SET) return;
    message.has_start_task() ? Give(message) : core_->TakeFromCoordinator(message);
  }
  // Makes a message that a coordinator does not send to a group, or sends only once.
  void Noise(CoordinatorMessage* message) {
    switch (rng_->UniformInt(6)) {
      case 0:
        message->mutable_policy_version()->set_version(3);
        break;
      case 1:
        message->mutable_form_group()->set_task_id(present_->task_id());
        message->mutable_form_group()->set_generation(9);
        break;
      case 2:
        message->mutable_break_group()->set_task_id(present_->task_id());
        message->mutable_break_group()->set_generation(1);
        break;
      case 3:
        message->mutable_group_value()->set_task_id(present_->task_id());
        break;
      case 4:
        *message->mutable_start_task()->mutable_learner() = *present_;
        break;
      default:
        *message->mutable_learner_data() = sent_;
    }
  }
  // Answers the demand that waits longest; in a wild run sometimes wrongly.
  bool Answer(LearnerData* data) {
    if (waiting_.empty()) return false;
    const auto& [sequence, asked] = *waiting_.begin();
    data->set_task_id(asked.task_id);
    data->set_sequence(sequence);
    int64_t rows = std::min<int64_t>(asked.batch_size, 1000);  // A learner never demands more.
    if (Wild() && rng_->UniformInt(4) == 0) ++rows;
    for (int i = 0; i < std::min(asked.batches, 3); ++i) {
      data->add_items(EncodedRows(next_row_, rows));
      next_row_ += rows;
    }
    if (Wild() && data->items_size() > 0)
      *data->mutable_items(0) = mutator_->Mutate(data->items(0));
    waiting_.erase(waiting_.begin());
    return true;
  }

  // Lets the aggregator do what the elapsed time calls for, and checks what was sent since the last
  // call.
  void Settle() {
    core_->Advance();
    core_->ReportGroup();
    CheckForms();
    CheckData();
    CheckResources();
  }

  void TaskIsOver() {
    present_.reset();
    started_ = false;
    newest_of_task_ = 0;
    said_.clear();
    waiting_.clear();
  }
  bool IsPresent(const std::string& task_id) const {
    return present_.has_value() && present_->task_id() == task_id;
  }

  // Checks a message of the aggregator to the coordinator.
  void TakeUp(const WorkerMessage& message) {
    SCOPED_TRACE(message.ShortDebugString().substr(0, 500));
    switch (message.message_case()) {
      case WorkerMessage::kResources:
        EXPECT_THAT(ding::CheckResources(message.resources()), IsOk());
        resources_ = message.resources();
        break;
      case WorkerMessage::kTaskStarted:
        EXPECT_TRUE(IsPresent(message.task_started().task_id()));
        EXPECT_FALSE(started_) << "the task was started twice";
        started_ = true;
        break;
      case WorkerMessage::kTaskFailed:
        if (refused_.erase(message.task_failed().task_id()) > 0) break;
        EXPECT_TRUE(IsPresent(message.task_failed().task_id()));
        EXPECT_NE(message.task_failed().code(), 0) << "a failure must have a reason";
        TaskIsOver();
        break;
      case WorkerMessage::kLearnerDemand:
        TakeDemand(message.learner_demand());
        break;
      case WorkerMessage::kLearnerInfo:
        TakeInfo(message.learner_info());
        break;
      case WorkerMessage::kPolicyVersion:
        TakePolicy(message.policy_version());
        break;
      case WorkerMessage::kBadChunks:
        EXPECT_TRUE(IsPresent(message.bad_chunks().task_id()));
        EXPECT_THAT(CheckBadChunks(message.bad_chunks()), IsOk());
        break;
      case WorkerMessage::kGroupStatus:
        EXPECT_THAT(CheckGroupStatus(message.group_status()), IsOk());
        ++reports;
        break;
      default:
        ADD_FAILURE() << "the aggregator must not send this to a coordinator";
    }
  }
  void TakeDemand(const LearnerDemand& demand) {
    EXPECT_TRUE(IsPresent(demand.task_id()));
    ASSERT_THAT(CheckDemand(demand), IsOk());
    EXPECT_THAT(CheckSteps(demand.train_iter()), IsOk());
    EXPECT_EQ(demand.sequence(), ++demanded_);
    EXPECT_GE(demand.read(), read_);
    EXPECT_LT(demand.read(), demand.sequence());
    read_ = demand.read();
    if (!waiting_.empty()) {
      EXPECT_LT(read_, waiting_.begin()->first) << "a demand was read before it was answered";
    }
    waiting_[demand.sequence()] = {demand.batch_size(), demand.batches(), demand.task_id()};
    EXPECT_LE(waiting_.size(), kMaxWaitingDemands);
    EXPECT_LE(demanded_ - read_, kMaxUnreadDemands);
  }
  void TakeInfo(const LearnerInfo& info) {
    EXPECT_TRUE(IsPresent(info.task_id()));
    EXPECT_THAT(CheckLearnerInfo(info), IsOk());
    EXPECT_THAT(info.priority(), Each(Ge(0.0f)));
    for (const Triple& triple : TriplesOf(Paired(info))) {
      EXPECT_EQ(said_.count(triple), 1u) << "row " << std::get<1>(triple) << " has the priority of "
                                         << "another";
    }
    if (!info.stalled().empty()) {
      EXPECT_FALSE(info.learner_done()) << "a stalled report must not end the run";
      EXPECT_EQ(info.priority_size(), 0);
      return;
    }
    last_info_ = info;
    ++infos;
  }
  void TakePolicy(const PolicyVersion& policy) {
    ++policies;
    if (!present_.has_value()) return;  // The coordinator ignores it.
    EXPECT_EQ(policy.policy_id(), present_->policy_id());
    EXPECT_THAT(CheckSteps(policy.train_iter()), IsOk());
    EXPECT_GT(policy.version(), newest_of_task_);
    EXPECT_GE(policy.version(), present_->first_version());
    EXPECT_EQ(policy.key(),
              PolicyKey(policy.policy_id(), policy.version(), RandomLearner::kAggregator));
    newest_of_task_ = policy.version();
    newest_version_ = std::max(newest_version_, policy.version());
  }

  // Checks that the members of a generation have each rank exactly once.
  void CheckForms() {
    std::map<uint32_t, std::vector<FormGroup>> formed;
    for (const auto& learner : learners_) {
      for (const FormGroup& form : learner->TakeForms()) formed[form.generation()].push_back(form);
    }
    for (const auto& [generation, forms] : formed) {
      ++generations;
      std::vector<int32_t> ranks;
      for (const FormGroup& form : forms) {
        EXPECT_EQ(form.world_size(), static_cast<int>(forms.size()));
        EXPECT_GE(form.first_version(), 1u);
        ranks.push_back(form.rank());
      }
      std::sort(ranks.begin(), ranks.end());
      std::vector<int32_t> dense(forms.size());
      std::iota(dense.begin(), dense.end(), 0);
      EXPECT_EQ(ranks, dense) << "generation " << generation;
    }
  }

  // Checks that the rows of an answer went to the ranks in order, each row to exactly one.
  void CheckData() {
    std::map<int32_t, LearnerData> parts;  // by rank
    const FormGroup* generation = nullptr;
    for (const auto& learner : learners_) {
      for (const LearnerData& data : learner->TakeData()) {
        generation = learner->last_generation();
        ASSERT_NE(generation, nullptr);
        EXPECT_TRUE(parts.insert({generation->rank(), data}).second) << "a learner got two answers";
      }
    }
    if (parts.empty()) return;
    EXPECT_EQ(static_cast<int>(parts.size()), generation->world_size());
    for (int i = 0; i < sent_.items_size(); ++i) {
      const auto rows = RowsIn(sent_.items(i));
      std::vector<int64_t> given;
      for (const auto& [rank, part] : parts) {
        ASSERT_EQ(part.items_size(), sent_.items_size());
        const auto share = RowsIn(part.items(i));
        ASSERT_EQ(share.has_value(), rows.has_value());
        if (share.has_value()) given.insert(given.end(), share->begin(), share->end());
      }
      if (rows.has_value()) {
        EXPECT_EQ(given, *rows);
      }
      rows_given += static_cast<int64_t>(given.size());
    }
  }
  void CheckResources() {
    EXPECT_EQ(core_->Status().worker_size(), static_cast<int>(learners_.size()));
    int64_t memory = 0;
    int64_t gpus = 0;
    for (const auto& learner : learners_) {
      memory += learner->hello().resources().memory_bytes();
      gpus += learner->hello().resources().gpus();
    }
    EXPECT_EQ(resources_.memory_bytes(), memory);
    EXPECT_EQ(resources_.gpus(), std::min<int64_t>(gpus, kMaxGpus));
    EXPECT_GE(resources_.cpus(), 0);
  }

  // Lets all learners take one step.
  void Learn(bool done) {
    for (const auto& learner : learners_) {
      ASSERT_NE(learner->generation(), nullptr);
      WorkerMessage message;
      learner->Demand(4, message.mutable_learner_demand());
      Say(learner.get(), message);
    }
    Settle();
    ASSERT_FALSE(waiting_.empty());
    const bool answers = Answer(&sent_given_);
    ASSERT_TRUE(answers);
    sent_ = std::exchange(sent_given_, {});
    CoordinatorMessage data;
    *data.mutable_learner_data() = sent_;
    core_->TakeFromCoordinator(data);
    Settle();
    for (const auto& learner : learners_) {
      ASSERT_NE(learner->generation(), nullptr);
      WorkerMessage message;
      learner->Info(done, message.mutable_learner_info());
      for (const Triple& triple : TriplesOf(message.learner_info())) said_.insert(triple);
      Say(learner.get(), message);
    }
    Settle();
  }

  Mutator* const mutator_;
  Rng* const rng_;
  uint64_t wild_one_in_ = 0;
  SimulatedClock clock_;
  std::optional<GroupCore> core_;
  std::vector<std::unique_ptr<RandomLearner>> learners_;
  int last_name_ = 0;
  int last_task_ = 0;
  int64_t next_row_ = 0;
  // The state as the coordinator sees it.
  std::optional<LearnerTask> present_;
  bool started_ = false;
  std::multiset<std::string> refused_;  // tasks that are not for learners
  std::map<uint64_t, Asked> waiting_;
  uint64_t demanded_ = 0;
  uint64_t read_ = 0;
  uint64_t newest_version_ = 0;
  uint64_t newest_of_task_ = 0;
  Resources resources_;
  LearnerInfo last_info_;
  LearnerData sent_;
  LearnerData sent_given_;
  std::set<Triple> said_;
};

int64_t RandomRun::generations = 0;
int64_t RandomRun::rows_given = 0;
int64_t RandomRun::infos = 0;
int64_t RandomRun::policies = 0;
int64_t RandomRun::lost = 0;
int64_t RandomRun::reports = 0;

TEST(AggregatorFuzz, TheGroupSurvivesRandomMessages) {
  constexpr uint64_t kRuns = 200;
  constexpr int kSteps = 150;
  SetMinLogSeverity(LogSeverity::kError);
  Fuzz(kRuns, [](Mutator* mutator) {
    RandomRun run(mutator);
    for (int i = 0; i < kSteps && mutator->more() && !testing::Test::HasFatalFailure(); ++i) {
      run.Step();
    }
    if (!testing::Test::HasFatalFailure()) run.CheckEnd();
  });
  if (FuzzRounds(kRuns) < kRuns) return;
  EXPECT_GT(RandomRun::generations, 500);
  EXPECT_GT(RandomRun::rows_given, 2000);
  EXPECT_GT(RandomRun::infos, 500);
  EXPECT_GT(RandomRun::policies, 100);
  EXPECT_GT(RandomRun::lost, 20);
  EXPECT_GT(RandomRun::reports, 500);
}

}  // namespace
}  // namespace ding
