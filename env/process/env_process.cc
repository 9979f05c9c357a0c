#include "ding_worker/env/process/env_process.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/process/process_message.h"

namespace ding {
namespace {

constexpr size_t kPage = 4096;
constexpr int kLastLines = 5;  // of a process that ended, for its error

// Hands out consecutive pieces of one block; without a block, only counts the bytes.
class Pieces {
 public:
  explicit Pieces(std::byte* memory) : memory_(memory) {}
  template <typename T>
  T* Take(int64_t count, size_t alignment = 64) {
    used_ = (used_ + alignment - 1) / alignment * alignment;
    const size_t begin = used_;
    used_ += sizeof(T) * static_cast<size_t>(count);
    return memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + begin);
  }
  size_t used() const { return used_; }

 private:
  std::byte* memory_;
  size_t used_ = 0;
};

// Data segment and private mappings of this process, in bytes.
rlim_t AllocatedBytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar("\t "), absl::SkipEmpty());
    int64_t kilobytes = 0;
    if (words.size() >= 2 && words[0] == "VmData:" && absl::SimpleAtoi(words[1], &kilobytes)) {
      return static_cast<rlim_t>(kilobytes) * 1024;
    }
  }
  return 0;
}

class EnvProcess {
 public:
  explicit EnvProcess(const EnvProcessOptions& options)
      : options_(options),
        spec_(*options.spec),
        memory_(options.memory),
        mine_(memory_->process(options.process)),
        retry_(*options.retry) {
    retry_.sleep = [this](absl::Duration time) {
      Note(EnvCall::kWaiting, mine_.env_id.load());
      options_.retry->sleep(time);
    };
    for (const int env_id : options_.env_ids) {
      hosts_.emplace_back((*options_.factories)[static_cast<size_t>(env_id)], options_.spec,
                          &retry_);
      hosts_.back().set_on_attempt([this, env_id](EnvCall call) { Begin(call, env_id); });
    }
  }

  void Run() {
    const auto asked = [this] { return mine_.requests.load() != seen_; };
    while (mine_.leave.load() == 0) {
      seen_ = mine_.requests.load();
      bool any = false;
      for (size_t i = 0; i < hosts_.size(); ++i) {
        const int env_id = options_.env_ids[i];
        if (memory_->env(env_id).turn.load() != ProcessMemory::kAsked) continue;
        any = true;
        Answer(env_id, &hosts_[i]);
      }
      if (any || SpinUntil(asked, options_.crowded)) continue;
      mine_.sleeping.store(1);
      // The timeout of an hour has no effect: a request wakes the process, and the parent's death
      // kills it.
      if (!asked()) FutexWait(&mine_.requests, seen_, absl::Hours(1));
      mine_.sleeping.store(0);
    }
  }

 private:
  // Tells the parent what is being called, so that it can be given up.
  void Begin(EnvCall call, int env_id) {
    if (call == EnvCall::kReset) mine_.attempts.fetch_add(1);
    Note(call, env_id);
  }
  void Note(EnvCall call, int env_id) {
    mine_.env_id.store(env_id);
    mine_.call.store(static_cast<uint32_t>(call));
    mine_.progress.fetch_add(1);
  }

  void Answer(int env_id, EnvHost* host) {
    ProcessMemory::Env& env = memory_->env(env_id);
    const auto call = static_cast<EnvCall>(env.call);
    if (call == EnvCall::kStep) {
      mine_.env_id.store(env_id, std::memory_order_relaxed);
      mine_.call.store(static_cast<uint32_t>(call), std::memory_order_relaxed);
      mine_.progress.fetch_add(1, std::memory_order_relaxed);
      Step(env_id, host);
    } else {
      ProcessMessageWriter message;
      mine_.attempts.store(env.attempts_made);
      Note(call, env_id);
      absl::Status status = DoOnce(call, env_id, host, &message);
      Send(env_id, status, message);
    }
    mine_.call.store(static_cast<uint32_t>(EnvCall::kIdle), std::memory_order_relaxed);
    env.turn.store(ProcessMemory::kAnswered);
    NotifyAnswer(&memory_->manager());
  }

  void Step(int env_id, EnvHost* host) {
    ProcessMemory::Env& env = memory_->env(env_id);
    ClearStepResult(spec_, &result_);
    absl::Status status = host->Step(ColumnsView(memory_->actions()).row(env_id),
                                     memory_->rows().row(env_id), &result_);
    env.reward = result_.reward;
    env.terminated = result_.terminated ? 1 : 0;
    env.truncated = result_.truncated ? 1 : 0;
    env.abnormal = result_.abnormal ? 1 : 0;
    env.message_size = 0;
    status.Update(CheckPlayerEnds(spec_, result_));
    if (status.ok()) {
      std::copy(result_.player_ends.begin(), result_.player_ends.end(),
                memory_->player_ends(env_id));
    }
    if (spec_.info != nullptr) {
      status.Update(CheckInfoRow(spec_, result_));
      const absl::Span<const char> info = result_.info_row.bytes();
      if (status.ok()) std::copy(info.begin(), info.end(), memory_->info(env_id));
    }
    const auto others = static_cast<size_t>(spec_.players - 1);
    const auto components = static_cast<size_t>(spec_.reward_components());
    const bool all_rewards =
        result_.other_rewards.size() == others && result_.reward_components.size() == components;
    if (all_rewards) {
      std::copy_n(result_.other_rewards.begin(), others, memory_->other_rewards(env_id));
      std::copy_n(result_.reward_components.begin(), components,
                  memory_->reward_components(env_id));
    }
    if (status.ok() && all_rewards && result_.info.empty() && result_.component_returns.empty() &&
        !result_.abnormal) {
      return;
    }
    ProcessMessageWriter message;
    Put(result_.info, &message);
    Put(result_.abnormal ? host->TakeVoidCause() : absl::OkStatus(), &message);
    message.Number(static_cast<int64_t>(result_.other_rewards.size()));
    message.Number(static_cast<int64_t>(result_.reward_components.size()));
    message.Number(static_cast<int64_t>(result_.component_returns.size()));
    for (const double component : result_.component_returns) message.Number(component);
    Send(env_id, status, message);
  }

  absl::Status DoOnce(EnvCall call, int env_id, EnvHost* host, ProcessMessageWriter* message) {
    const ProcessMemory::Env& env = memory_->env(env_id);
    switch (call) {
      case EnvCall::kReset: {
        EpisodeStart start;
        start.seed = env.seed;
        if (env.message_size > 0) {
          ProcessMessageReader in(memory_->message(env_id));
          start.params = TakeNamedValues(&in);
        }
        return host->Reset(start, memory_->rows().row(env_id), env.attempts_made);
      }
      case EnvCall::kRender: {
        DING_ASSIGN_OR_RETURN(const Image image, host->Render());
        Put(image, message);
        return absl::OkStatus();
      }
      case EnvCall::kSave: {
        StateDict state;
        DING_RETURN_IF_ERROR(host->SaveState(&state));
        Put(state, message);
        return absl::OkStatus();
      }
      case EnvCall::kLoad: {
        ProcessMessageReader in(memory_->message(env_id));
        const std::string source(in.Bytes());
        StateDict state(source);
        DING_RETURN_IF_ERROR(TakeState(&in, &state));
        return host->LoadState(&state);
      }
      default:
        return absl::InternalError("received an unknown call");
    }
  }

  void Send(int env_id, const absl::Status& status, const ProcessMessageWriter& rest) {
    ProcessMessageWriter message;
    Put(status, &message);
    message.Bytes(rest.bytes());
    if (memory_->PutMessage(env_id, message.bytes())) return;
    ProcessMessageWriter too_large;
    Put(absl::ResourceExhaustedError(absl::StrCat("its answer has ", message.bytes().size(),
                                                  " bytes, expected at most ",
                                                  ProcessMemory::kMessageBytes)),
        &too_large);
    too_large.Bytes("");
    memory_->PutMessage(env_id, too_large.bytes());
  }

  const EnvProcessOptions& options_;
  const EnvSpec& spec_;
  ProcessMemory* const memory_;
  ProcessMemory::Process& mine_;
  EnvRetryOptions retry_;  // whose pauses the parent knows of
  std::vector<EnvHost> hosts_;
  StepResult result_;
  uint32_t seen_ = 0;
};

}  // namespace

void FutexWait(std::atomic<uint32_t>* word, uint32_t value, absl::Duration timeout) {
  const timespec time = absl::ToTimespec(timeout);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT, value, &time, nullptr, 0);
}

void FutexWake(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

absl::StatusOr<std::unique_ptr<ProcessMemory>> ProcessMemory::Create(const EnvSpec& spec,
                                                                     int env_num, int process_num) {
  auto made = absl::WrapUnique(new ProcessMemory(spec, env_num));
  if (spec.info != nullptr) made->info_bytes_ = InfoRow::Offset(*spec.info, spec.info->size());
  const auto lay_out = [&](Pieces pieces) {
    made->manager_ = pieces.Take<Manager>(1);
    made->processes_ = pieces.Take<Process>(process_num);
    made->envs_ = pieces.Take<Env>(env_num);
    made->more_rewards_ = pieces.Take<float>(int64_t{env_num} * MoreRewards(spec));
    made->player_ends_ = pieces.Take<PlayerEnd>(int64_t{env_num} * spec.players);
    made->info_rows_ = pieces.Take<char>(int64_t{env_num} * made->info_bytes_);
    made->row_columns_.clear();
    made->next_columns_.clear();
    made->action_columns_.clear();
    for (std::vector<std::byte*>* const columns : {&made->row_columns_, &made->next_columns_}) {
      for (int i = 0; i < spec.observation->size(); ++i) {
        const int64_t bytes = env_num * spec.observation->row_bytes(i);
        columns->push_back(pieces.Take<std::byte>(bytes));
      }
    }
    for (int i = 0; i < spec.action->size(); ++i) {
      const int64_t bytes = env_num * spec.action->row_bytes(i);
      made->action_columns_.push_back(pieces.Take<std::byte>(bytes));
    }
    made->messages_ = pieces.Take<std::byte>(env_num * kMessageBytes, kPage);
    return pieces.used();
  };
  made->bytes_ = lay_out(Pieces(nullptr));
  // Untouched pages take no memory.
  made->fd_ = memfd_create("ding_worker_envs", MFD_CLOEXEC);
  void* memory = MAP_FAILED;
  if (made->fd_ >= 0 && ftruncate(made->fd_, static_cast<off_t>(made->bytes_)) == 0) {
    memory = mmap(nullptr, made->bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                  made->fd_, 0);
  }
  if (memory == MAP_FAILED) {
    return absl::UnavailableError(
        absl::StrCat("shared memory of ", made->bytes_, " bytes: ", std::strerror(errno)));
  }
  made->memory_ = static_cast<std::byte*>(memory);
  lay_out(Pieces(made->memory_));
  new (made->manager_) Manager();
  for (int i = 0; i < process_num; ++i) new (&made->processes_[i]) Process();
  for (int i = 0; i < env_num; ++i) new (&made->envs_[i]) Env();
  return made;
}

ProcessMemory::~ProcessMemory() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
  if (fd_ >= 0) close(fd_);
}

bool ProcessMemory::PutMessage(int i, absl::string_view bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  envs_[i].message_size = 0;
  if (size > kMessageBytes) return false;
  std::memcpy(messages_ + i * kMessageBytes, bytes.data(), bytes.size());
  envs_[i].message_size = size;
  return true;
}

absl::string_view ProcessMemory::message(int i) const {
  const int64_t size = std::clamp<int64_t>(envs_[i].message_size, 0, kMessageBytes);
  return {reinterpret_cast<const char*>(messages_ + i * kMessageBytes), static_cast<size_t>(size)};
}

int RunEnvProcess(const EnvProcessOptions& options) {
  EnvProcess process(options);
  if (options.memory_limit_mb > 0) LimitMemory(options.memory_limit_mb);
  process.Run();
  return 0;
}

void LimitMemory(int64_t megabytes) {
  const rlim_t bytes = AllocatedBytes() + (static_cast<rlim_t>(megabytes) << 20);
  const rlimit limit = {bytes, bytes};
  setrlimit(RLIMIT_DATA, &limit);
  std::set_new_handler([] { _exit(kMemoryExitCode); });
}

void NotifyAnswer(ProcessMemory::Manager* manager) {
  const uint32_t answered = manager->answered.fetch_add(1) + 1;
  // The difference, since the counts wrap around.
  if (static_cast<int32_t>(answered - manager->wake_at.load()) < 0) return;
  manager->event.fetch_add(1);
  if (manager->sleeping.load() != 0) FutexWake(&manager->event);
}

absl::Status WhyProcessEnded(const ForkServer& server, int child, int64_t memory_limit_mb,
                             const absl::Status& kill_cause) {
  const int status = server.wait_status(child);
  std::string how = absl::StrCat("its process ", server.HowItEnded(child));
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  if (!kill_cause.ok()) {
    how = absl::StrCat(kill_cause.message(), " and was killed");
    code = kill_cause.code();
  } else if (status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == kMemoryExitCode) {
    how = absl::StrCat("its process passed memory_limit_mb (", memory_limit_mb, ")");
    code = absl::StatusCode::kResourceExhausted;
  }
  const std::string lines = server.LastLines(child, kLastLines);
  if (!lines.empty()) absl::StrAppend(&how, "; its last lines:\n", lines);
  return absl::Status(code, how);
}

}  // namespace ding
