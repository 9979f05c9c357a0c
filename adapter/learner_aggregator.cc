#include "ding_worker/adapter/learner_aggregator.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/adapter/merge.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/chunk_key.h"
#include "ding_worker/interaction/message_checks.h"
#include "ding_worker/interaction/protocol.h"
#include "ding_worker/interaction/session.h"
#include "glog/logging.h"

namespace ding {
namespace {

// Then what time brings about is looked after.
constexpr absl::Duration kReceiveTimeout = absl::Milliseconds(50);
// The coordinator's window is full only if it is stuck; the lease ends that before.
constexpr absl::Duration kSendTimeout = absl::Minutes(1);
// What a learner may be ahead of the others: more than its loader can be.
constexpr size_t kMaxQueued = 1024;
// Below what the coordinator stands from one worker, as a learner is to blame alone.
constexpr size_t kMaxWaitingDemands = 32;
constexpr size_t kMaxUnreadDemands = 512;
// What a learner has to say to be connected, in a generation: all others are sent it.
constexpr int kMaxValues = 16;
constexpr size_t kMaxValueBytes = size_t{1} << 20;
// Versions of a policy that were never published. Rank 0 counts by one: who jumps to the last number
// that there is would have no successor.
constexpr uint64_t kMaxSkippedVersions = 1000;

absl::Status CheckIsLearner(const Hello& hello) {
  if (hello.role() == Hello::COLLECTOR) {
    return absl::FailedPreconditionError(
        "this is a learner aggregator: expected learners; collectors join the coordinator");
  }
  return CheckHelloFields(hello);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LearnerAggregator>> LearnerAggregator::Create(
    Options options, WorkerSession* coordinator, Transport* transport) {
  if (options.learner_num < 1 || options.connect_timeout <= absl::ZeroDuration() ||
      options.form_timeout <= absl::ZeroDuration() || options.admit_period < absl::ZeroDuration() ||
      options.report_period < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "learner aggregator: learner_num is ", options.learner_num,
        ", expected at least 1; connect_timeout is ", absl::FormatDuration(options.connect_timeout),
        " and form_timeout ", absl::FormatDuration(options.form_timeout),
        ", expected more than 0; admit_period is ", absl::FormatDuration(options.admit_period),
        " and report_period ", absl::FormatDuration(options.report_period),
        ", expected at least 0"));
  }
  options.server.welcome = coordinator->welcome();
  options.server.check_hello = CheckIsLearner;
  if (options.server.welcome.has_lease_seconds()) {
    options.server.session.lease = absl::Seconds(options.server.welcome.lease_seconds());
  }
  auto made = absl::WrapUnique(new LearnerAggregator(options, coordinator));
  DING_ASSIGN_OR_RETURN(made->server_, WorkerServer::Create(options.server, transport));
  return made;
}

LearnerAggregator::LearnerAggregator(const Options& options, WorkerSession* coordinator)
    : options_(options), coordinator_(coordinator), since_report_(options.clock) {}

LearnerAggregator::~LearnerAggregator() { server_->Close("the aggregator is closed"); }

void LearnerAggregator::Close() { coordinator_->Close("the learner aggregator leaves the run"); }

bool LearnerAggregator::ended() const {
  MutexLock lock(&mutex_);
  return end_.has_value();
}

absl::StatusOr<EndRun> LearnerAggregator::Run() {
  absl::Status status = server_->Start(this);
  EndRun end;
  bool ended = false;
  while (status.ok() && !ended) {
    const absl::StatusOr<CoordinatorMessage> message = coordinator_->Receive(kReceiveTimeout);
    if (!message.ok() && !absl::IsDeadlineExceeded(message.status())) status = message.status();
    MutexLock lock(&mutex_);
    if (message.ok() && message->has_start_task()) {
      TakeTask(message->start_task());
    } else if (message.ok() && message->has_close_task()) {
      if (IsTask(message->close_task().task_id())) CloseTask();
    } else if (message.ok() && message->has_learner_data()) {
      TakeData(message->learner_data());
    } else if (message.ok() && message->has_end_run()) {
      end = message->end_run();
      ended = true;
      end_ = end;
      CoordinatorMessage told;
      *told.mutable_end_run() = end;
      for (const auto& [worker, learner] : learners_) server_->Send(worker, told);
    }
    Advance();
    ReportGroup();
  }
  if (ended && !server_->WaitForWorkersToLeave(options_.leave_timeout)) {
    LOG(WARNING) << "some learners have not left within " << options_.leave_timeout;
  }
  server_->Close(ended ? end.reason() : absl::StrCat("no coordinator: ", status.message()));
  DING_RETURN_IF_ERROR(status);
  return end;
}

absl::StatusOr<uint32_t> LearnerAggregator::Admit(const Hello& hello) {
  MutexLock lock(&mutex_);
  for (const auto& [worker, learner] : learners_) {
    DING_RETURN_IF_ERROR(CheckNotReplaced(hello, learner.hello));
  }
  return ++last_worker_;
}

OperatorReply LearnerAggregator::Operate(const OperatorRequest& request) {
  OperatorReply reply;
  if (!request.has_inspect() || !request.inspect().empty()) {
    reply.set_code(static_cast<int>(absl::StatusCode::kFailedPrecondition));
    reply.set_message(
        "this is an aggregator of learners, which tells its status and no more: ask "
        "the coordinator");
  }
  *reply.mutable_status() = status();
  return reply;
}

void LearnerAggregator::WorkerJoined(uint32_t worker, const Hello& hello, const std::string& peer) {
  MutexLock lock(&mutex_);
  Learner& learner = learners_[worker];
  learner.hello = hello;
  learner.peer = peer;
  learner.joined_nanos = options_.clock->MonotonicNanos();
  LOG(INFO) << hello.name() << " joined the group from " << peer << ": " << learners_.size()
            << " learners of " << options_.learner_num;
  if (end_.has_value()) {
    CoordinatorMessage message;
    *message.mutable_end_run() = *end_;
    server_->Send(worker, message);
    return;
  }
  SendResources();
  if (task_.has_value()) StartLearner(worker, &learner);
}

void LearnerAggregator::WorkerLost(uint32_t worker, const absl::Status& why) {
  MutexLock lock(&mutex_);
  const auto found = learners_.find(worker);
  if (found == learners_.end()) return;
  const std::string name = found->second.hello.name();
  learners_.erase(found);
  if (end_.has_value()) return;
  LOG(WARNING) << name << " has left the group: " << why.message();
  SendResources();
  if (!task_.has_value()) return;
  // Also one whose task has failed: it has a rank, and all would wait for it.
  if (std::count(task_->members.begin(), task_->members.end(), worker) > 0) {
    BreakGeneration(absl::StrCat(name, " is gone"));
  }
  if (task_->generation == 0 && task_->resumes == worker) {
    FailTask(absl::CancelledError(
        absl::StrCat(name, ", which was to go on from the checkpoint, is gone")));
  }
  Advance();
}

absl::Status LearnerAggregator::Handle(uint32_t worker, const WorkerMessage& message) {
  MutexLock lock(&mutex_);
  if (learners_.count(worker) == 0) return absl::NotFoundError("there is no such learner");
  switch (message.message_case()) {
    case WorkerMessage::kGroupReady:
      return TakeReady(worker, message.group_ready());
    case WorkerMessage::kGroupValue:
      return PassOnValue(worker, message.group_value());
    case WorkerMessage::kLearnerDemand:
      return TakeDemand(worker, message.learner_demand());
    case WorkerMessage::kLearnerInfo:
      return TakeInfo(worker, message.learner_info());
    case WorkerMessage::kPolicyVersion:
      return PassOnPolicy(worker, message.policy_version());
    case WorkerMessage::kBadChunks:
      return PassOnBadChunks(worker, message.bad_chunks());
    case WorkerMessage::kTaskFailed:
      TakeFailure(worker, message.task_failed());
      return absl::OkStatus();
    default:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat("a message of kind ",
                                                 static_cast<int>(message.message_case()),
                                                 ", expected those of a learner in a group"));
}

void LearnerAggregator::TakeTask(const StartTask& start) {
  if (!start.has_learner()) {
    RefuseTask(start.collector().task_id(),
               absl::FailedPreconditionError(
                   "this is a learner aggregator: expected the task of a learner"));
    return;
  }
  if (task_.has_value()) CloseTask();
  task_ = Task();
  task_->task = start.learner();
  EnterPhase(Phase::kGathering);
  LOG_IF(INFO, static_cast<int>(learners_.size()) < options_.learner_num)
      << start.learner().task_id() << " waits for " << options_.learner_num << " learners, "
      << learners_.size() << " are there";
  for (auto& [worker, learner] : learners_) StartLearner(worker, &learner);
}

// Who comes later than the first is told what these have learned.
void LearnerAggregator::StartLearner(uint32_t worker, Learner* learner) {
  learner->state = LearnerState::kStarting;
  learner->demands.clear();
  learner->infos.clear();
  CoordinatorMessage message;
  LearnerTask* const task = message.mutable_start_task()->mutable_learner();
  *task = task_->task;
  task->set_group_worker(coordinator_->welcome().worker());
  if (task->resume() && !task_->resumes.has_value()) {
    task_->resumes = worker;
  } else {
    task->set_resume(false);
  }
  server_->Send(worker, message);
}

absl::Status LearnerAggregator::TakeReady(uint32_t worker, const GroupReady& ready) {
  if (!IsTask(ready.task_id())) return absl::OkStatus();
  Learner& learner = learners_[worker];
  const bool was_member = learner.state == LearnerState::kMember;
  // The message is about a generation from before the learner was told to begin anew.
  if (!was_member && ready.generation() > 0) return absl::OkStatus();
  if (was_member && ready.generation() != task_->generation) {
    return absl::InvalidArgumentError(absl::StrCat(learner.hello.name(), " has left generation ",
                                                   ready.generation(), ", expected ",
                                                   task_->generation, ", in which it is"));
  }
  if (ready.train_iter() < 0 || ready.model_digest().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        learner.hello.name(), " is ready at iteration ", ready.train_iter(), " with digest '",
        ready.model_digest(), "', expected at least 0 and the digest of its model"));
  }
  for (const auto& [id, other] : learners_) {
    const bool in_group =
        other.state == LearnerState::kReady || other.state == LearnerState::kMember;
    if (id == worker || !in_group || ready.model_digest() == other.ready.model_digest()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "the model of ", learner.hello.name(), " has digest ", ready.model_digest(),
        ", those of the group ", other.ready.model_digest(),
        ": the names or shapes of its parameters differ; start all learners from one build"));
  }
  learner.state = LearnerState::kReady;
  learner.ready = ready;
  if (was_member) {
    BreakGeneration(absl::StrCat(learner.hello.name(), " has left it",
                                 ready.why().empty() ? "" : ": ", ready.why()));
  }
  Advance();
  return absl::OkStatus();
}

absl::Status LearnerAggregator::TakeDemand(uint32_t worker, const LearnerDemand& demand) {
  if (!IsTask(demand.task_id()) || !IsMember(worker)) return absl::OkStatus();
  // The group's demand is no greater than the coordinator stands, if no part of it is.
  LearnerDemand of_all = demand;
  DING_RETURN_IF_ERROR(CheckDemand(demand));
  DING_RETURN_IF_ERROR(Annotate(CheckSteps(demand.train_iter()), "train iterations"));
  of_all.set_batch_size(demand.batch_size() * static_cast<int64_t>(task_->members.size()));
  DING_RETURN_IF_ERROR(Annotate(CheckDemand(of_all), "of all learners of the group"));
  Learner& learner = learners_[worker];
  if (learner.demands.size() >= kMaxQueued) {
    return absl::ResourceExhaustedError(absl::StrCat(
        learner.demands.size(), " demands ahead of the others of the group, expected fewer"));
  }
  std::vector<GroupDemand*> read;
  for (auto& [sequence, sent] : demands_) {
    for (const GroupDemand::Share& share : sent.shares) {
      if (share.learner != worker || share.sequence > demand.read()) continue;
      if (!sent.answered) {
        return absl::InvalidArgumentError(absl::StrCat("data are read up to demand ", demand.read(),
                                                       ", but ", share.sequence,
                                                       " is not answered"));
      }
      read.push_back(&sent);
    }
  }
  for (GroupDemand* const sent : read) sent->unread.erase(worker);
  learner.demands.push_back(demand);
  learner.demands.back().DiscardUnknownFields();
  SendDemands();
  return absl::OkStatus();
}

bool LearnerAggregator::MayDemand() {
  const uint64_t unread = demanded_ - ReadUpTo();
  const auto waiting =
      static_cast<size_t>(std::count_if(demands_.begin(), demands_.end(), [](const auto& demand) {
        return !demand.second.answered;
      }));
  return waiting < kMaxWaitingDemands && unread < kMaxUnreadDemands;
}

void LearnerAggregator::SendDemands() {
  while (MayDemand()) {
    std::vector<LearnerDemand> demands;
    for (const uint32_t worker : task_->members) {
      if (learners_[worker].demands.empty()) return;
      demands.push_back(learners_[worker].demands.front());
    }
    WorkerMessage message;
    *message.mutable_learner_demand() = MergeDemands(demands);
    message.mutable_learner_demand()->set_sequence(++demanded_);
    message.mutable_learner_demand()->set_read(ReadUpTo());
    GroupDemand& sent = demands_[demanded_];
    for (size_t i = 0; i < demands.size(); ++i) {
      const uint32_t worker = task_->members[i];
      learners_[worker].demands.pop_front();
      sent.shares.push_back({worker, demands[i].sequence(), demands[i].batch_size()});
      sent.unread.insert(worker);
    }
    Send(message);
  }
}

uint64_t LearnerAggregator::ReadUpTo() {
  while (!demands_.empty() && demands_.begin()->second.answered &&
         demands_.begin()->second.unread.empty()) {
    read_ = demands_.begin()->first;
    demands_.erase(demands_.begin());
  }
  return read_;
}

void LearnerAggregator::TakeData(const LearnerData& data) {
  const auto found = demands_.find(data.sequence());
  if (!IsTask(data.task_id()) || found == demands_.end() || found->second.answered) return;
  found->second.answered = true;
  const absl::Status given = GiveData(data, found->second.shares);
  if (!given.ok()) {
    FailTask(given);
    return;
  }
  if (task_->phase == Phase::kRunning) SendDemands();  // What waited for fewer to be under way.
}

absl::Status LearnerAggregator::GiveData(const LearnerData& data,
                                         const std::vector<GroupDemand::Share>& shares) {
  if (shares.empty()) return absl::OkStatus();  // The generation is over.
  std::vector<CoordinatorMessage> answers(shares.size());
  std::vector<int64_t> rows;
  for (size_t i = 0; i < answers.size(); ++i) {
    LearnerData* const answer = answers[i].mutable_learner_data();
    answer->set_task_id(data.task_id());
    answer->set_sequence(shares[i].sequence);
    answer->set_envstep(data.envstep());
    rows.push_back(shares[i].rows);
  }
  for (const std::string& items : data.items()) {
    DING_ASSIGN_OR_RETURN(const std::vector<std::string> parts, SplitItems(items, rows));
    for (size_t i = 0; i < answers.size(); ++i) {
      answers[i].mutable_learner_data()->add_items(parts[i]);
    }
  }
  for (size_t i = 0; i < answers.size(); ++i) server_->Send(shares[i].learner, answers[i]);
  return absl::OkStatus();
}

absl::Status LearnerAggregator::TakeInfo(uint32_t worker, const LearnerInfo& info) {
  if (!IsTask(info.task_id()) || !IsMember(worker)) return absl::OkStatus();
  DING_RETURN_IF_ERROR(CheckLearnerInfo(info));
  DING_RETURN_IF_ERROR(CheckPriorities(info));
  if (!info.stalled().empty()) {
    // All wait for the same.
    if (worker == task_->members.front()) {
      WorkerMessage message;
      message.mutable_learner_info()->set_task_id(info.task_id());
      message.mutable_learner_info()->set_learner_step(info.learner_step());
      message.mutable_learner_info()->set_stalled(info.stalled());
      Send(message);
    }
    return absl::OkStatus();
  }
  Learner& learner = learners_[worker];
  size_t bytes = info.ByteSizeLong();
  for (const LearnerInfo& ahead : learner.infos) bytes += ahead.ByteSizeLong();
  // Those of all are to fit into one message.
  const size_t max_bytes = static_cast<size_t>(kMaxSessionMessageBytes) / 2 / task_->members.size();
  if (learner.infos.size() >= kMaxQueued || bytes > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(learner.infos.size() + 1, " reports of ", bytes,
                     " bytes ahead of the others of the group, expected at most ", kMaxQueued,
                     " of ", max_bytes));
  }
  learner.infos.push_back(info);
  SendInfos();
  return absl::OkStatus();
}

void LearnerAggregator::SendInfos() {
  while (task_.has_value()) {
    std::vector<LearnerInfo> infos;
    for (const uint32_t worker : task_->members) {
      if (learners_[worker].infos.empty()) return;
      infos.push_back(learners_[worker].infos.front());
    }
    absl::StatusOr<LearnerInfo> merged = MergeInfos(infos);
    if (!merged.ok()) {
      FailTask(merged.status());
      return;
    }
    for (const uint32_t worker : task_->members) learners_[worker].infos.pop_front();
    WorkerMessage message;
    *message.mutable_learner_info() = *std::move(merged);
    Send(message);
  }
}

absl::Status LearnerAggregator::PassOnPolicy(uint32_t worker, const PolicyVersion& version) {
  if (task_.has_value()) {
    if (task_->members.empty() || worker != task_->members.front()) return absl::OkStatus();
    DING_RETURN_IF_ERROR(CheckPolicy(version));
    task_->newest_version = version.version();
  }
  // Also when the task is over: the coordinator deletes what is on its way.
  WorkerMessage message;
  *message.mutable_policy_version() = version;
  Send(message);
  return absl::OkStatus();
}

absl::Status LearnerAggregator::CheckPolicy(const PolicyVersion& version) const {
  DING_RETURN_IF_ERROR(Annotate(CheckSteps(version.train_iter()), "train iterations"));
  const uint64_t lowest =
      std::max({task_->task.first_version(), task_->newest_version + 1, uint64_t{1}});
  const std::string key =
      PolicyKey(task_->task.policy_id(), version.version(), coordinator_->welcome().worker());
  if (version.policy_id() == task_->task.policy_id() && version.key() == key &&
      version.version() >= lowest && version.version() - lowest <= kMaxSkippedVersions) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("version ", version.version(), " of policy '", version.policy_id(),
                   "' with key '", version.key(), "', expected ", lowest, " or little more of '",
                   task_->task.policy_id(), "' with key '", key, "'"));
}

absl::Status LearnerAggregator::PassOnBadChunks(uint32_t worker, const BadChunks& bad) {
  if (!IsTask(bad.task_id()) || !IsMember(worker)) return absl::OkStatus();
  DING_RETURN_IF_ERROR(CheckBadChunks(bad));
  WorkerMessage message;
  *message.mutable_bad_chunks() = bad;
  Send(message);
  return absl::OkStatus();
}

absl::Status LearnerAggregator::PassOnValue(uint32_t worker, const GroupValue& value) {
  if (!IsTask(value.task_id()) || !IsMember(worker) || value.generation() != task_->generation) {
    return absl::OkStatus();
  }
  Learner& learner = learners_[worker];
  const size_t bytes = learner.value_bytes + value.ByteSizeLong();
  if (learner.values >= kMaxValues || bytes > kMaxValueBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(learner.values + 1, " values of ", bytes, " bytes in generation ",
                     task_->generation, ", expected at most ", kMaxValues, " of ", kMaxValueBytes));
  }
  ++learner.values;
  learner.value_bytes = bytes;
  CoordinatorMessage message;
  *message.mutable_group_value() = value;
  for (const uint32_t member : task_->members) server_->Send(member, message);
  return absl::OkStatus();
}

void LearnerAggregator::TakeFailure(uint32_t worker, const TaskFailed& failed) {
  if (!IsTask(failed.task_id())) return;
  Learner& learner = learners_[worker];
  const bool was_joining =
      task_->generation > 0 &&
      (learner.state == LearnerState::kStarting ||
       (learner.state == LearnerState::kReady && learner.ready.generation() == 0));
  learner.state = LearnerState::kFailed;
  const auto code = static_cast<absl::StatusCode>(failed.code());
  const absl::Status why(code == absl::StatusCode::kOk ? absl::StatusCode::kUnknown : code,
                         absl::StrCat(learner.hello.name(), ": ", failed.message()));
  LOG(WARNING) << failed.task_id() << " failed: " << why;
  if (was_joining) return;  // The others go on without it.
  // Another learner says why: this one could not take a step because that one could not.
  if (task_->failure.ok()) task_->failure = why;
  if (code != absl::StatusCode::kAborted) {
    FailTask(why);
    return;
  }
  Advance();
}

void LearnerAggregator::Advance() {
  if (!task_.has_value() || end_.has_value()) return;
  switch (task_->phase) {
    case Phase::kGathering:
      AdvanceGathering();
      break;
    case Phase::kForming:
      AdvanceForming();
      break;
    case Phase::kRunning:
      AdvanceRunning();
      break;
  }
}

void LearnerAggregator::AdvanceGathering() {
  const std::vector<uint32_t> ready = InState(LearnerState::kReady);
  const bool all = static_cast<int>(ready.size()) >= options_.learner_num;
  if (!all && PhaseAge() < options_.connect_timeout) return;
  const bool resumes =
      !task_->resumes.has_value() || std::count(ready.begin(), ready.end(), *task_->resumes) > 0;
  if (ready.empty()) {
    FailTask(absl::UnavailableError(absl::StrCat("no connected learner: none was ready within ",
                                                 absl::FormatDuration(options_.connect_timeout),
                                                 ", expected ", options_.learner_num,
                                                 " to join the aggregator at ", address())));
  } else if (resumes) {
    FormGeneration();
  } else if (PhaseAge() >= options_.connect_timeout) {
    FailTask(absl::CancelledError("the learner that loads the checkpoint is not ready"));
  }
}

void LearnerAggregator::AdvanceForming() {
  const std::vector<uint32_t> late = InState(LearnerState::kMember);
  if (!late.empty() && PhaseAge() < options_.form_timeout) return;
  for (const uint32_t worker : late) {
    LOG(WARNING) << learners_[worker].hello.name() << " did not leave the last generation within "
                 << options_.form_timeout << ": it begins anew";
    StartLearner(worker, &learners_[worker]);
  }
  const std::vector<uint32_t> ready = InState(LearnerState::kReady);
  const bool somebody_learned = std::any_of(ready.begin(), ready.end(),
                                            [this](uint32_t worker) ABSL_NO_THREAD_SAFETY_ANALYSIS {
                                              return learners_[worker].ready.generation() > 0;
                                            });
  if (somebody_learned) {
    FormGeneration();
  } else if (!task_->failure.ok()) {
    FailTask(task_->failure);
  } else {
    FailTask(absl::CancelledError("all learners of the group are gone"));
  }
}

void LearnerAggregator::AdvanceRunning() {
  if (InState(LearnerState::kMember).empty()) {
    FailTask(task_->failure);
    return;
  }
  if (InState(LearnerState::kReady).empty() || PhaseAge() < options_.admit_period) return;
  BreakGeneration("another learner has come");
}

void LearnerAggregator::FormGeneration() {
  std::vector<uint32_t> members = InState(LearnerState::kReady);
  const auto rank_of = [this](uint32_t worker) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const GroupReady& ready = learners_[worker].ready;
    const bool resumes = task_->generation == 0 && task_->resumes == worker;
    return std::make_tuple(!resumes, ready.generation() == 0, -ready.train_iter(), worker);
  };
  std::sort(members.begin(), members.end(),
            [&](uint32_t a, uint32_t b) { return rank_of(a) < rank_of(b); });
  // The first is the one whose state all take over, the others come in the order of their joining.
  std::sort(members.begin() + 1, members.end());
  task_->members = members;
  ++task_->generation;
  EnterPhase(Phase::kRunning);
  std::vector<std::string> names;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    Learner& learner = learners_[members[rank]];
    learner.state = LearnerState::kMember;
    learner.demands.clear();
    learner.infos.clear();
    learner.values = 0;
    learner.value_bytes = 0;
    names.push_back(learner.hello.name());
    CoordinatorMessage message;
    FormGroup* const form = message.mutable_form_group();
    form->set_task_id(task_->task.task_id());
    form->set_generation(task_->generation);
    form->set_rank(static_cast<int32_t>(rank));
    form->set_world_size(static_cast<int32_t>(members.size()));
    // One is left out: rank 0 of the generation before may still be writing it.
    form->set_first_version(std::max(task_->task.first_version(),
                                     task_->newest_version == 0 ? 1 : task_->newest_version + 2));
    server_->Send(members[rank], message);
  }
  LOG(INFO) << task_->task.task_id() << ": generation " << task_->generation << " of "
            << members.size() << " learners: " << absl::StrJoin(names, ", ");
  LOG_IF(WARNING, static_cast<int>(members.size()) < options_.learner_num)
      << members.size() << " learners learn together, expected " << options_.learner_num;
  if (task_->generation == 1) {
    WorkerMessage message;
    message.mutable_task_started()->set_task_id(task_->task.task_id());
    Send(message);
  }
}

void LearnerAggregator::BreakGeneration(const std::string& why) {
  if (task_->phase != Phase::kRunning) return;
  LOG(INFO) << task_->task.task_id() << ": generation " << task_->generation << " is over: " << why;
  EnterPhase(Phase::kForming);
  CoordinatorMessage message;
  message.mutable_break_group()->set_task_id(task_->task.task_id());
  message.mutable_break_group()->set_generation(task_->generation);
  for (const uint32_t worker : InState(LearnerState::kMember)) server_->Send(worker, message);
  // Answers to these are for nobody.
  for (auto& [sequence, demand] : demands_) {
    demand.shares.clear();
    demand.unread.clear();
  }
  for (auto& [worker, learner] : learners_) {
    learner.demands.clear();
    // The last report of the run waits for nobody who cannot come any more.
    if (worker == task_->members.front() && !learner.infos.empty() &&
        learner.infos.back().learner_done()) {
      WorkerMessage done;
      *done.mutable_learner_info() = learner.infos.back();
      Send(done);
    }
    learner.infos.clear();
  }
}

void LearnerAggregator::FailTask(const absl::Status& why) {
  RefuseTask(task_->task.task_id(), why);
  CloseTask();
}

void LearnerAggregator::RefuseTask(const std::string& task_id, const absl::Status& why) {
  WorkerMessage message;
  message.mutable_task_failed()->set_task_id(task_id);
  message.mutable_task_failed()->set_code(static_cast<int>(why.code()));
  message.mutable_task_failed()->set_message(std::string(why.message()));
  Send(message);
}

void LearnerAggregator::CloseTask() {
  CoordinatorMessage message;
  message.mutable_close_task()->set_task_id(task_->task.task_id());
  for (auto& [worker, learner] : learners_) {
    if (learner.state != LearnerState::kIdle) server_->Send(worker, message);
    learner.state = LearnerState::kIdle;
    learner.demands.clear();
    learner.infos.clear();
  }
  task_.reset();
  demands_.clear();
  read_ = demanded_;
}

void LearnerAggregator::SendResources() {
  std::vector<Resources> all;
  for (const auto& [worker, learner] : learners_) all.push_back(learner.hello.resources());
  WorkerMessage message;
  Resources* const merged = message.mutable_resources();
  *merged = MergeResources(all);
  // The coordinator believes no more of one worker.
  merged->set_cpus(std::min(merged->cpus(), kMaxCpus));
  merged->set_memory_bytes(std::min(merged->memory_bytes(), kMaxMemoryBytes));
  Send(message);
}

void LearnerAggregator::ReportGroup() {
  if (since_report_.Elapsed() < options_.report_period) return;
  std::vector<std::pair<uint32_t, std::string>> now;
  for (const auto& [worker, learner] : learners_) now.emplace_back(worker, WaitsFor(learner));
  if (now == reported_) return;
  WorkerMessage message;
  GroupStatus* const group = message.mutable_group_status();
  for (const auto& [worker, learner] : learners_) {
    if (group->member_size() == kMaxGroupMembers) break;
    FillLearner(worker, learner, group->add_member());
    if (group->ByteSizeLong() <= kMaxGroupStatusBytes) continue;
    group->mutable_member()->RemoveLast();
    break;
  }
  Send(message);
  reported_ = std::move(now);
  since_report_ = Timer(options_.clock);
}

void LearnerAggregator::Send(const WorkerMessage& message) {
  const absl::Status sent = coordinator_->Send(message, kSendTimeout);
  // The session is over then, or ends by its lease: Run() says so.
  if (!sent.ok()) LOG(WARNING) << "a message to the coordinator is not sent: " << sent.message();
}

void LearnerAggregator::EnterPhase(Phase phase) {
  task_->phase = phase;
  task_->since_nanos = options_.clock->MonotonicNanos();
}

absl::Duration LearnerAggregator::PhaseAge() const {
  return absl::Nanoseconds(options_.clock->MonotonicNanos() - task_->since_nanos);
}

std::vector<uint32_t> LearnerAggregator::InState(LearnerState state) const {
  std::vector<uint32_t> found;
  for (const auto& [worker, learner] : learners_) {
    if (learner.state == state) found.push_back(worker);
  }
  return found;
}

bool LearnerAggregator::IsMember(uint32_t worker) const {
  const auto found = learners_.find(worker);
  return found != learners_.end() && found->second.state == LearnerState::kMember &&
         task_->phase == Phase::kRunning;
}

std::string LearnerAggregator::WaitsFor(const Learner& learner) const {
  switch (learner.state) {
    case LearnerState::kIdle:
      return "a task";
    case LearnerState::kStarting:
      return "its own start";
    case LearnerState::kReady:
      return "the group";
    case LearnerState::kMember:
      return task_->phase == Phase::kRunning ? "" : "the end of the last generation";
    case LearnerState::kFailed:
      return "the next task, as this one failed here";
  }
  return "";
}

void LearnerAggregator::FillLearner(uint32_t worker, const Learner& learner,
                                    WorkerStatus* status) const {
  status->set_worker(worker);
  status->set_name(learner.hello.name());
  status->set_role(learner.hello.role());
  status->set_peer(learner.peer);
  status->set_pid(learner.hello.pid());
  status->set_alive_seconds(absl::ToDoubleSeconds(
      absl::Nanoseconds(options_.clock->MonotonicNanos() - learner.joined_nanos)));
  if (task_.has_value() && learner.state != LearnerState::kIdle) {
    status->set_task_id(task_->task.task_id());
  }
  status->set_waits_for(WaitsFor(learner));
}

RunStatus LearnerAggregator::status() const {
  RunStatus status;
  MutexLock lock(&mutex_);
  status.set_run(coordinator_->welcome().run());
  for (const auto& [worker, learner] : learners_) {
    FillLearner(worker, learner, status.add_worker());
  }
  return status;
}

}  // namespace ding
