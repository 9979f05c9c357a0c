#include "ding_worker/coordinator/state/worker_roster.h"

#include <cstddef>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/check.h"
#include "ding_worker/interaction/control/protocol.h"

namespace ding {
namespace internal_coordinator {
namespace {

// The time for which a worker that was sent away is not admitted again.
constexpr absl::Duration kSentAwayFor = absl::Minutes(10);
constexpr size_t kMaxSentAway = 1000;

double Seconds(int64_t from_nanos, int64_t to_nanos) {
  return absl::ToDoubleSeconds(absl::Nanoseconds(to_nanos - from_nanos));
}

void FillTask(const RunningTask& task, int64_t now_nanos, WorkerStatus* status) {
  status->set_task_id(task.id());
  status->set_evaluates(task.collector().eval_flag());
  if (task.stalls) {
    status->set_stalled_seconds(Seconds(task.progress_nanos, now_nanos));
    if (status->waits_for().empty()) status->set_waits_for("something that it has not reported");
  }
  const double seconds = Seconds(task.start_nanos, now_nanos);
  if (seconds <= 0) return;
  const auto steps =
      static_cast<double>(task.collects() ? task.StepsWith(task.rows)
                                          : task.steps - std::max<int64_t>(task.first_iter, 0));
  status->set_steps_per_second(steps / seconds);
  // The learners of a group take every step together.
  for (WorkerStatus& member : *status->mutable_member()) {
    if (member.waits_for().empty()) member.set_steps_per_second(steps / seconds);
  }
}

void FillWorker(const Worker& worker, int64_t now_nanos, WorkerStatus* status) {
  status->set_worker(worker.id);
  status->set_name(worker.hello.name());
  status->set_role(worker.hello.role());
  status->set_peer(worker.peer);
  status->set_pid(worker.hello.pid());
  if (worker.hello.has_resources()) *status->mutable_resources() = worker.hello.resources();
  status->set_alive_seconds(Seconds(worker.joined_nanos, now_nanos));
  status->set_waits_for(worker.waits_for.empty() ? worker.stalled : worker.waits_for);
  if (worker.draining) status->set_draining(true);
  if (worker.bad_chunks > 0) status->set_bad_chunks(worker.bad_chunks);
  for (const WorkerStatus& told : worker.group.member()) {
    WorkerStatus* const member = status->add_member();
    *member = told;
    member->set_alive_seconds(told.alive_seconds() + Seconds(worker.group_nanos, now_nanos));
  }
  if (worker.task.has_value()) FillTask(*worker.task, now_nanos, status);
}

// Returns a sentence for each resource of which a worker of the role has less than a task needs.
std::vector<std::string> Lacks(Hello::Role role, const Resources& has, const Resources& needed) {
  std::vector<std::string> lacks;
  const auto compare = [&](const char* field, auto present, auto wanted) {
    if (present >= wanted) return;
    lacks.push_back(absl::StrCat("policy.other.commander.", RoleName(role), "_resources.", field,
                                 " is ", wanted, ", and it has ", present));
  };
  compare("cpus", has.cpus(), needed.cpus());
  compare("memory_bytes", has.memory_bytes(), needed.memory_bytes());
  compare("gpus", has.gpus(), needed.gpus());
  return lacks;
}

void AddDraining(const std::string& name, int64_t pid, StateRecord* state) {
  DrainingRecord* const record = state->add_draining();
  record->set_name(name);
  record->set_pid(pid);
}

}  // namespace

bool NeedsVersion(const StartTask& task, const PolicyVersion& version) {
  if (task.has_learner()) {
    return task.learner().has_init_policy() && task.learner().init_policy().key() == version.key();
  }
  const CollectorTask& collector = task.collector();
  if (collector.eval_flag() && collector.policy().key() == version.key()) return true;
  return std::any_of(collector.player().begin(), collector.player().end(),
                     [&](const TaskPlayer& player) {
                       return !player.update_policy() && player.policy().key() == version.key();
                     });
}

Worker* WorkerRoster::Add(uint32_t id, const Hello& hello, const std::string& peer,
                          int64_t now_nanos) {
  const auto [entry, is_new] = workers_.try_emplace(id);
  DING_CHECK(is_new) << "worker " << id << " joined before";
  Worker* const worker = &entry->second;
  worker->id = id;
  worker->hello = hello;
  worker->peer = peer;
  worker->joined_nanos = now_nanos;
  worker->may_grow = !hello.has_resources();
  ++joined_;
  last_number_ = std::max(last_number_, id);
  return worker;
}

void WorkerRoster::Remove(Worker* worker) {
  SetBusy(worker);
  worker->draining ? --draining_ : ++lost_;
  workers_.erase(worker->id);
}

void WorkerRoster::SetFree(Worker* worker) {
  SetBusy(worker);
  worker->free_number = ++frees_;
  free_[worker->free_number] = worker;
}

void WorkerRoster::SetBusy(Worker* worker) {
  free_.erase(worker->free_number);
  worker->free_number = 0;
}

void WorkerRoster::Drain(Worker* worker) {
  if (!worker->draining) ++draining_;
  worker->draining = true;
  SetBusy(worker);
}

Worker* WorkerRoster::Assign(Hello::Role role, const Resources& needed,
                             std::optional<uint32_t> except) {
  Worker* best = nullptr;
  for (const auto& [number, worker] : free_) {
    const Resources& has = worker->hello.resources();
    if (worker->hello.role() != role || except == worker->id) continue;
    if (best != nullptr && has.cpus() <= best->hello.resources().cpus()) continue;
    if (Lacks(role, has, needed).empty()) best = worker;
  }
  if (best == nullptr) return nullptr;
  SetBusy(best);
  assigned_.insert(role);
  return best;
}

std::optional<std::string> WorkerRoster::WhyUnmet(const StartTask& task) const {
  const Hello::Role role = RoleOf(task);
  const Resources& needed = NeededBy(task);
  const Worker* largest = nullptr;
  std::vector<std::string> lacks;
  for (const auto& [id, worker] : workers_) {
    if (worker.hello.role() != role || worker.draining) continue;
    const Resources& has = worker.hello.resources();
    std::vector<std::string> missing = Lacks(role, has, needed);
    if (missing.empty()) return std::nullopt;
    const bool is_larger =
        largest == nullptr || missing.size() < lacks.size() ||
        (missing.size() == lacks.size() && has.cpus() > largest->hello.resources().cpus());
    if (!is_larger) continue;
    largest = &worker;
    lacks = std::move(missing);
  }
  if (largest == nullptr) return std::nullopt;
  const bool wants_gpus = needed.gpus() > largest->hello.resources().gpus();
  return absl::StrCat("no ", RoleName(role), " that has joined has what ", TaskIdOf(task),
                      " needs; the largest one is ", largest->hello.name(), ": ",
                      absl::StrJoin(lacks, "; "), ". Start a larger ", RoleName(role),
                      wants_gpus ? " (--gpus=N says how many GPUs it has)" : "",
                      ", or lower the field");
}

Worker* WorkerRoster::Find(uint32_t id) {
  const auto found = workers_.find(id);
  return found == workers_.end() ? nullptr : &found->second;
}

const Worker* WorkerRoster::Find(uint32_t id) const {
  const auto found = workers_.find(id);
  return found == workers_.end() ? nullptr : &found->second;
}

bool WorkerRoster::Runs(const std::string& task_id) const {
  return std::any_of(begin(), end(), [&task_id](const auto& entry) {
    return entry.second.task.has_value() && entry.second.task->id() == task_id;
  });
}

bool WorkerRoster::IsPlayed(const std::string& policy_id) const {
  return std::any_of(begin(), end(), [&policy_id](const auto& entry) {
    return entry.second.task.has_value() && entry.second.task->collector().policy_id() == policy_id;
  });
}

bool WorkerRoster::Needs(const PolicyVersion& version) const {
  return std::any_of(begin(), end(), [&version](const auto& entry) {
    const std::optional<RunningTask>& task = entry.second.task;
    return task.has_value() && NeedsVersion(task->start, version);
  });
}

bool WorkerRoster::HasOtherCollector(uint32_t id) const {
  return std::any_of(begin(), end(), [id](const auto& entry) {
    return entry.first != id && entry.second.hello.role() == Hello::COLLECTOR &&
           !entry.second.draining;
  });
}

int WorkerRoster::collectors() const {
  return static_cast<int>(std::count_if(begin(), end(), [](const auto& entry) {
    return entry.second.hello.role() == Hello::COLLECTOR;
  }));
}

std::vector<uint32_t> WorkerRoster::Surplus(int64_t wanted) const {
  std::vector<uint32_t> busy;
  std::vector<uint32_t> order;  // drained from its end on: those that are busy last
  for (const auto& [id, worker] : workers_) {
    if (worker.hello.role() != Hello::COLLECTOR || worker.draining) continue;
    (worker.task.has_value() ? busy : order).push_back(id);
  }
  order.insert(order.begin(), busy.begin(), busy.end());
  const size_t left = std::min(order.size(), static_cast<size_t>(wanted));
  return {order.rbegin(), order.rend() - static_cast<ptrdiff_t>(left)};
}

std::vector<std::string> WorkerRoster::Names() const {
  std::vector<std::string> names;
  for (const auto& [id, worker] : workers_) {
    names.push_back(worker.hello.name());
    for (const WorkerStatus& member : worker.group.member()) names.push_back(member.name());
  }
  return names;
}

void WorkerRoster::NoteSentAway(const Hello& hello, const std::string& why, int64_t now_nanos) {
  for (auto it = sent_away_.begin(); it != sent_away_.end();) {
    const bool over = absl::Nanoseconds(now_nanos - it->second.since_nanos) >= kSentAwayFor;
    it = over ? sent_away_.erase(it) : std::next(it);
  }
  if (sent_away_.size() >= kMaxSentAway) return;
  sent_away_[{hello.name(), hello.pid()}] = {why, now_nanos};
}

absl::Status WorkerRoster::CheckNotSentAway(const Hello& hello, int64_t now_nanos) const {
  const auto found = sent_away_.find({hello.name(), hello.pid()});
  if (found == sent_away_.end()) return absl::OkStatus();
  const absl::Duration since = absl::Nanoseconds(now_nanos - found->second.since_nanos);
  if (since >= kSentAwayFor) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      hello.name(), " (pid ", hello.pid(), ") was sent away ",
      absl::FormatDuration(absl::Trunc(since, absl::Seconds(1))), " ago: ", found->second.why));
}

bool WorkerRoster::TakeWasDraining(const Hello& hello) {
  return were_draining_.erase({hello.name(), hello.pid()}) > 0;
}

void WorkerRoster::FillStatus(int64_t now_nanos, RunStatus* status) const {
  status->set_workers_lost(lost_);
  status->set_workers_joined(joined_);
  for (const auto& [id, worker] : workers_) FillWorker(worker, now_nanos, status->add_worker());
}

void WorkerRoster::Save(StateRecord* state) const {
  state->set_last_worker(last_number_);
  state->set_workers_joined(joined_);
  state->set_workers_lost(lost_);
  for (const auto& [name, pid] : were_draining_) AddDraining(name, pid, state);
  if (draining_ == 0) return;
  for (const auto& [id, worker] : workers_) {
    if (worker.draining) AddDraining(worker.hello.name(), worker.hello.pid(), state);
  }
}

void WorkerRoster::Load(const StateRecord& state) {
  NoteNumber(state.last_worker());
  joined_ = state.workers_joined();
  lost_ = state.workers_lost();
  for (const DrainingRecord& collector : state.draining()) {
    were_draining_.emplace(collector.name(), collector.pid());
  }
}

}  // namespace internal_coordinator
}  // namespace ding
