#include "ding_worker/env/process_memory.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ding {
namespace {

constexpr size_t kPage = 4096;

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

}  // namespace ding
