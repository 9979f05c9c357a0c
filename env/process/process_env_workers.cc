#include "ding_worker/env/process/process_env_workers.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/env_adapters.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/process/env_process.h"
#include "ding_worker/env/process/process_message.h"

namespace ding {
namespace {

// How long to sleep before checking whether processes and fork server are alive and in time.
constexpr absl::Duration kCheckInterval = absl::Milliseconds(20);
// A wait that is so short is spent awake.
constexpr int64_t kShortWaitNanos = 200'000;
// The number of waits that are not spent awake after the machine was found to be busy.
constexpr int kWaitsAsleep = 100;

// Asks the envs through the shared memory and collects their answers. The path of a step is in this
// class and in inline functions of EnvProcessPool, which starts, watches and ends the processes.
class ProcessEnvWorkers : public EnvWorkers {
 public:
  ProcessEnvWorkers(const EnvRetryOptions& retry, EnvSpec spec, EnvProcessPool processes,
                    std::optional<OutOfBounds> out_of_bounds)
      : max_retry_(retry.max_retry),
        retry_waiting_time_(retry.retry_waiting_time),
        spec_(std::move(spec)),
        processes_(std::move(processes)),
        memory_(processes_.memory()),
        crowded_(processes_.crowded()),
        seats_(static_cast<size_t>(processes_.env_num())) {
    if (out_of_bounds.has_value()) bounds_.emplace(spec_, *out_of_bounds);
    busy_.reserve(seats_.size());
    to_wake_.reserve(static_cast<size_t>(processes_.size()));
  }

  int env_num() const override { return static_cast<int>(seats_.size()); }
  const EnvSpec& spec() const override { return spec_; }
  MutableColumnsView rows() const override { return memory_->rows(); }
  MutableColumnsView actions() const override { return memory_->actions(); }

  void AskStep(int env_id) override {
    Seat& seat = Take(env_id, EnvCall::kStep);
    // If its process has ended, the env has lost its episode and cannot step.
    CheckEnd(processes_.ProcessOf(env_id));
    if (!seat.lost.ok()) {
      AnswerFor(env_id, seat.lost);
      return;
    }
    Ask(env_id);
  }

  void AskReset(int env_id, const EpisodeStart& start) override {
    Seat& seat = Take(env_id, EnvCall::kReset);
    seat.start = start;
    CheckEnd(processes_.ProcessOf(env_id));
    if (!TakePrepared(env_id)) AskReset(env_id, /*attempts_made=*/0);
  }

  void PrepareReset(int env_id, const EpisodeStart& start) override {
    ProcessMemory::Env& env = memory_->env(env_id);
    env.next_seed = start.seed;
    env.next.store(start.params.empty() ? ProcessMemory::kWanted : ProcessMemory::kNotPrepared,
                   std::memory_order_relaxed);
  }

  absl::Status Wait(int at_least, std::vector<int>* answered) override {
    at_least = std::min(at_least, static_cast<int>(busy_.size()));
    // An env that has answered stays answered until its answer is taken, so none is checked twice.
    size_t first = 0;
    DING_RETURN_IF_ERROR(WaitUntil(at_least, [&] {
      while (first < busy_.size() && HasAnswered(busy_[first])) ++first;
      if (static_cast<int>(first) >= at_least) return true;
      // If all must answer, this env settles it; otherwise the envs after it are counted, too.
      return at_least < static_cast<int>(busy_.size()) && CountAnswered(first) >= at_least;
    }));
    const auto take = [&](int env_id) {
      if (!HasAnswered(env_id)) return false;
      if (!seat(env_id).synthetic) {
        ReadAnswer(env_id);
        CheckObservation(env_id);
      }
      Release(env_id);
      answered->push_back(env_id);
      return true;
    };
    busy_.erase(std::remove_if(busy_.begin(), busy_.end(), take), busy_.end());
    return absl::OkStatus();
  }
  EnvAnswer& answer(int env_id) override { return seat(env_id).answer; }

  absl::StatusOr<Image> Render(int env_id) override {
    DING_ASSIGN_OR_RETURN(const std::string message, Call(env_id, EnvCall::kRender, ""));
    ProcessMessageReader in(message);
    Image image = TakeImage(&in);
    if (!in.ok()) return absl::DataLossError("the image is cut off");
    return image;
  }
  absl::Status SaveState(int env_id, StateWriter* writer) override {
    DING_ASSIGN_OR_RETURN(const std::string message, Call(env_id, EnvCall::kSave, ""));
    ProcessMessageReader in(message);
    return TakeState(&in, writer);
  }
  absl::Status LoadState(int env_id, StateReader* reader) override {
    StateDict state;
    for (const std::string& name : reader->Names()) {
      DING_ASSIGN_OR_RETURN(const Tensor tensor, reader->ReadTensor(name));
      DING_RETURN_IF_ERROR(state.WriteTensor(name, tensor));
    }
    ProcessMessageWriter message;
    message.Bytes("the saved state");
    Put(state, &message);
    // What was prepared belongs to another episode.
    memory_->env(env_id).next.store(ProcessMemory::kNotPrepared);
    DING_RETURN_IF_ERROR(Call(env_id, EnvCall::kLoad, message.bytes()).status());
    seat(env_id).lost = absl::OkStatus();
    return absl::OkStatus();
  }

  void End() override {
    processes_.EndAll();
    for (int i = 0; i < env_num(); ++i) {
      memory_->env(i).turn.store(ProcessMemory::kIdle);
      memory_->env(i).next.store(ProcessMemory::kNotPrepared);
      seat(i) = Seat();
    }
    busy_.clear();
    to_wake_.clear();
  }

 private:
  // What an env was asked, and its answer.
  struct Seat {
    EnvCall call = EnvCall::kIdle;  // the call that the env is busy with
    bool synthetic = false;  // `answer` was made here, because the process of the env has ended
    EpisodeStart start;
    // When the next attempt at a reset is due, if its process ended during the last one.
    absl::Time retry_at = absl::InfiniteFuture();
    int attempts_made = 0;
    absl::Status lost;  // why the env no longer exists; OK if it exists
    EnvAnswer answer;
  };

  Seat& seat(int env_id) { return seats_[static_cast<size_t>(env_id)]; }

  // Asking.

  Seat& Take(int env_id, EnvCall call) {
    Seat& seat = this->seat(env_id);
    seat.call = call;
    seat.answer.reset = call == EnvCall::kReset;
    busy_.push_back(env_id);
    return seat;
  }
  void Release(int env_id) {
    Seat& seat = this->seat(env_id);
    if (!seat.synthetic) processes_.RemoveCall(processes_.ProcessOf(env_id));
    seat.call = EnvCall::kIdle;
    seat.synthetic = false;
    memory_->env(env_id).turn.store(ProcessMemory::kIdle, std::memory_order_relaxed);
  }

  // Answers a reset that the env has already made as it was prepared to. Otherwise forgets what was
  // prepared.
  bool TakePrepared(int env_id) {
    Seat& seat = this->seat(env_id);
    ProcessMemory::Env& env = memory_->env(env_id);
    const bool prepared = env.next.load() == ProcessMemory::kPrepared && seat.lost.ok() &&
                          seat.start.seed == env.next_seed && seat.start.params.empty();
    env.next.store(ProcessMemory::kNotPrepared);
    if (!prepared) return false;
    CopyRow(ColumnsView(memory_->next_rows()).row(env_id), memory_->rows().row(env_id));
    seat.synthetic = true;
    seat.answer.status = absl::OkStatus();
    CheckObservation(env_id);
    return true;
  }
  void AskReset(int env_id, int attempts_made) {
    Seat& seat = this->seat(env_id);
    seat.attempts_made = attempts_made;
    seat.retry_at = absl::InfiniteFuture();
    ProcessMemory::Env& env = memory_->env(env_id);
    env.seed = seat.start.seed;
    env.attempts_made = attempts_made;
    env.message_size = 0;
    if (!seat.start.params.empty()) {
      ProcessMessageWriter message;
      Put(seat.start.params, &message);
      memory_->PutMessage(env_id, message.bytes());
    }
    Ask(env_id);
  }

  // Hands the request over, and starts the process of the env if there is none.
  void Ask(int env_id) {
    const int i = processes_.ProcessOf(env_id);
    ProcessMemory::Env& env = memory_->env(env_id);
    env.call = static_cast<uint32_t>(seat(env_id).call);
    if (seat(env_id).call == EnvCall::kStep) {
      // Most steps leave these as they are.
      env.terminated = env.truncated = env.abnormal = 0;
      env.message_size = 0;
    }
    env.turn.store(ProcessMemory::kAsked);
    if (processes_.AddCall(i)) to_wake_.push_back(i);
  }
  void WakeAsked() {
    for (const int i : to_wake_) processes_.Wake(i);
    to_wake_.clear();
  }

  // Waiting.

  bool HasAnswered(int env_id) {
    return seat(env_id).synthetic ||
           memory_->env(env_id).turn.load(std::memory_order_acquire) == ProcessMemory::kAnswered;
  }
  // Returns how many busy envs have answered. The first `first` of them must have answered.
  int CountAnswered(size_t first) {
    int count = static_cast<int>(first);
    for (size_t i = first; i < busy_.size(); ++i) count += HasAnswered(busy_[i]) ? 1 : 0;
    return count;
  }

  // Waits until `done` returns true. Sleeps until `at_least` of the busy envs have answered, or a
  // process has ended, or kCheckInterval has passed. The shared count of answers only says when to
  // wake up: it may be too low, because a process can end after it has answered and before it has
  // counted that.
  template <typename Done>
  absl::Status WaitUntil(int at_least, const Done& done) {
    WakeAsked();
    if (done()) return absl::OkStatus();
    // If the answers came soon the last time, they will again: to sleep and to be woken would take
    // longer.
    const int64_t begin = Clock::Real()->MonotonicNanos();
    bool answered = false;
    if (waits_asleep_ > 0) {
      --waits_asleep_;
    } else {
      const int64_t spin = last_wait_nanos_ < kShortWaitNanos ? kShortWaitNanos
                           : crowded_                         ? kCrowdedSpinNanos
                                                              : kSpinNanos;
      answered = SpinUntil(done, crowded_, spin);
      // Somebody else has computed on this core meanwhile. A thread that wakes up gets it sooner
      // than one that yields.
      if (Clock::Real()->MonotonicNanos() - begin > spin + kShortWaitNanos) {
        waits_asleep_ = kWaitsAsleep;
      }
    }
    const absl::Status status = answered ? absl::OkStatus() : SleepUntil(at_least, done);
    last_wait_nanos_ = Clock::Real()->MonotonicNanos() - begin;
    return status;
  }

  template <typename Done>
  absl::Status SleepUntil(int at_least, const Done& done) {
    ProcessMemory::Manager& shared = memory_->manager();
    // Processes are measured only from the first wait that sleeps.
    processes_.WatchTimes();
    while (true) {
      const uint32_t answered = shared.answered.load();
      const int missing = std::max(1, at_least - CountAnswered(0));
      shared.wake_at.store(answered + static_cast<uint32_t>(missing));
      shared.sleeping.store(1);
      const uint32_t event = shared.event.load();
      if (!done()) FutexWait(&shared.event, event, kCheckInterval);
      shared.sleeping.store(0);
      if (done()) return absl::OkStatus();
      DING_RETURN_IF_ERROR(CheckProcesses());
      if (done()) return absl::OkStatus();
    }
  }

  // Handles processes that have ended, kills those that take too long, and makes the attempts at a
  // reset that are due.
  absl::Status CheckProcesses() {
    DING_RETURN_IF_ERROR(processes_.Alive());
    const absl::Time now = EnvProcessPool::Now();
    for (int i = 0; i < processes_.size(); ++i) {
      CheckEnd(i);
      DING_RETURN_IF_ERROR(processes_.CheckTime(i, now));
    }
    for (const int env_id : busy_) {
      if (seat(env_id).retry_at <= now) AskReset(env_id, seat(env_id).attempts_made);
    }
    WakeAsked();
    return absl::OkStatus();
  }

  // If process i has ended, answers for its busy envs and notes that all its envs are lost.
  void CheckEnd(int i) {
    if (processes_.HasEnded(i)) HandleEnd(i);
  }

  void HandleEnd(int i) {
    const EnvProcessPool::Ending ending = processes_.TakeEnding(i);
    const int running = ending.env_id;
    const std::vector<int> env_ids = processes_.EnvsOf(i);
    for (const int env_id : env_ids) {
      Seat& seat = this->seat(env_id);
      absl::Status its_cause = ending.cause;
      if (env_id != running && running >= 0 && env_ids.size() > 1) {
        its_cause = Annotate(ending.cause, absl::StrCat("it shares a process with env ", running));
      }
      const bool waits = seat.call != EnvCall::kIdle && !seat.synthetic &&
                         seat.retry_at == absl::InfiniteFuture() &&
                         memory_->env(env_id).turn.load() == ProcessMemory::kAsked;
      seat.lost = its_cause;
      if (!waits) continue;
      if (memory_->env(env_id).next.load() == ProcessMemory::kPreparing) {
        // Its step was complete.
        memory_->env(env_id).next.store(ProcessMemory::kNotPrepared);
        memory_->env(env_id).turn.store(ProcessMemory::kAnswered);
        continue;
      }
      processes_.RemoveCall(i);
      memory_->env(env_id).turn.store(ProcessMemory::kIdle);
      if (seat.call != EnvCall::kReset) {
        AnswerFor(env_id, its_cause);
        continue;
      }
      // An env that the process had not yet turned to has lost no attempt. But if the process ended
      // before it called any env, all its envs have lost one; otherwise the attempts would never
      // end if no process can start.
      const bool lost_attempt = env_id == running || running < 0;
      const int made =
          lost_attempt ? std::max(ending.attempts, seat.attempts_made + 1) : seat.attempts_made;
      seat.attempts_made = made;
      if (made >= max_retry_) {
        AnswerFor(env_id, its_cause);
      } else {
        seat.retry_at =
            EnvProcessPool::Now() + (lost_attempt ? retry_waiting_time_ : absl::ZeroDuration());
      }
    }
  }

  // Makes the answer of an env whose process has ended: a step is void, any other call has failed.
  void AnswerFor(int env_id, const absl::Status& cause) {
    Seat& seat = this->seat(env_id);
    seat.synthetic = true;
    seat.answer.status = absl::OkStatus();
    if (seat.call != EnvCall::kStep) {
      seat.answer.status = cause;
      return;
    }
    ClearStepResult(spec_, &seat.answer.result);
    seat.answer.result.abnormal = true;
    seat.answer.void_cause = cause;
  }

  void ReadAnswer(int env_id) {
    Seat& seat = this->seat(env_id);
    const ProcessMemory::Env& env = memory_->env(env_id);
    EnvAnswer& answer = seat.answer;
    answer.status = absl::OkStatus();
    ProcessMessageReader outer(memory_->message(env_id));
    absl::string_view rest;
    if (env.message_size > 0) {
      answer.status = TakeStatus(&outer);
      rest = outer.Bytes();
    }
    if (seat.call == EnvCall::kReset) {
      if (answer.status.ok()) seat.lost = absl::OkStatus();
      return;
    }
    StepResult& result = answer.result;
    result.reward = env.reward;
    result.terminated = env.terminated != 0;
    result.truncated = env.truncated != 0;
    result.abnormal = env.abnormal != 0;
    const float* const others = memory_->other_rewards(env_id);
    result.other_rewards.assign(others, others + spec_.players - 1);
    const float* const components = memory_->reward_components(env_id);
    result.reward_components.assign(components, components + spec_.reward_components());
    if (spec_.players > 1) {
      const PlayerEnd* const ends = memory_->player_ends(env_id);
      result.player_ends.assign(ends, ends + spec_.players);
    }
    if (!result.info.empty()) result.info.Clear();
    if (spec_.info != nullptr) {
      result.info_row.Clear(spec_.info);
      const absl::Span<char> info = result.info_row.bytes();
      std::copy_n(memory_->info(env_id), info.size(), info.begin());
    }
    result.component_returns.clear();
    if (env.message_size == 0) return;
    ProcessMessageReader in(rest);
    result.info = TakeNamedValues(&in);
    answer.void_cause = TakeStatus(&in);
    result.other_rewards.resize(static_cast<size_t>(in.Number<int64_t>()));
    result.reward_components.resize(static_cast<size_t>(in.Number<int64_t>()));
    for (int64_t left = in.Number<int64_t>(); left > 0 && in.ok(); --left) {
      result.component_returns.push_back(in.Number<double>());
    }
    if (!in.ok() || !outer.ok()) {
      answer.status.Update(absl::InternalError("its answer is cut off"));
    }
  }

  void CheckObservation(int env_id) {
    EnvAnswer& answer = seat(env_id).answer;
    if (!bounds_.has_value() || !answer.status.ok()) return;
    if (!answer.reset && answer.result.abnormal) return;
    const RowRef row = memory_->rows().row(env_id);
    answer.status = bounds_->Enforce(env_id, row);
    // The manager checks what steps write.
    if (answer.reset && answer.status.ok()) answer.status = CheckFiniteRow(row);
  }

  // Makes one call of an idle env and returns what the env sent back. Other envs may be busy
  // meanwhile.
  absl::StatusOr<std::string> Call(int env_id, EnvCall call, absl::string_view request) {
    CheckEnd(processes_.ProcessOf(env_id));
    Seat& seat = this->seat(env_id);
    if (!seat.lost.ok() && call != EnvCall::kLoad) return seat.lost;
    if (!memory_->PutMessage(env_id, request)) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "it takes ", request.size(), " bytes, expected at most ", ProcessMemory::kMessageBytes));
    }
    Take(env_id, call);
    Ask(env_id);
    const absl::Status waited = WaitUntil(1, [&] { return HasAnswered(env_id); });
    busy_.erase(std::find(busy_.begin(), busy_.end(), env_id));
    if (!waited.ok()) return waited;
    if (seat.synthetic) {
      Release(env_id);
      return seat.answer.status;
    }
    ProcessMessageReader in(memory_->message(env_id));
    const absl::Status status = TakeStatus(&in);
    std::string answer(in.Bytes());
    Release(env_id);
    if (!status.ok()) return status;
    if (!in.ok()) return absl::DataLossError("its answer is cut off");
    return answer;
  }

  const int max_retry_;
  const absl::Duration retry_waiting_time_;
  const EnvSpec spec_;
  EnvProcessPool processes_;  // held by value: each step passes through it
  ProcessMemory* const memory_;
  const bool crowded_;  // see SpinUntil()
  std::optional<ObservationBounds> bounds_;
  std::vector<Seat> seats_;
  std::vector<int> busy_;  // envs that were asked and whose answer Wait() has not yet returned
  int64_t last_wait_nanos_ = 0;  // how long the last wait was
  int waits_asleep_ = 0;         // the next waits that are not spent awake
  std::vector<int> to_wake_;     // processes with requests that they were not yet told of
};

}  // namespace

absl::StatusOr<std::unique_ptr<EnvWorkers>> CreateProcessEnvWorkers(
    EnvProcessPool::Options options, EnvSpec spec, int env_num, EnvProcessPool::Run run,
    std::optional<OutOfBounds> out_of_bounds) {
  const EnvRetryOptions retry = options.retry;
  DING_ASSIGN_OR_RETURN(EnvProcessPool processes,
                        EnvProcessPool::Create(std::move(options), spec, env_num, std::move(run)));
  return std::make_unique<ProcessEnvWorkers>(retry, std::move(spec), std::move(processes),
                                             out_of_bounds);
}

}  // namespace ding
