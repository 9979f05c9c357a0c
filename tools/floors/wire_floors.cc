// The floor of the way from a collector to a learner: another process sends chunks of rows through
// a Unix socket; this one receives them, puts them into columns, and draws as many rows with their
// next observations.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ding_worker/tools/floors/floors.h"

namespace floors {
namespace {

constexpr size_t kChunks = 1024;  // in the buffer
constexpr size_t kSegments = 8;   // of a chunk, each with the observation behind its last row
constexpr size_t kOtherBytes = 8 + 4 + 8;  // action, reward, iteration of the policy

// A process that sends the same chunk again and again until the socket is closed.
class Sender {
 public:
  explicit Sender(const std::string& chunk) {
    int ends[2];
    Require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "no pair of sockets");
    for (const int end : ends) {
      const int size = 1 << 20;
      setsockopt(end, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    }
    child_ = fork();
    Require(child_ >= 0, "no process");
    if (child_ == 0) {
      close(ends[0]);
      signal(SIGPIPE, SIG_IGN);
      for (size_t sent = 0;;) {
        const ssize_t size = write(ends[1], chunk.data() + sent, chunk.size() - sent);
        if (size <= 0) _exit(0);
        sent = (sent + static_cast<size_t>(size)) % chunk.size();
      }
    }
    close(ends[1]);
    socket_ = ends[0];
  }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  ~Sender() {
    close(socket_);
    waitpid(child_, nullptr, 0);
  }

  void Receive(std::string* bytes) const {
    for (size_t received = 0; received < bytes->size();) {
      const ssize_t size = read(socket_, bytes->data() + received, bytes->size() - received);
      Require(size > 0, "the sender is gone");
      received += static_cast<size_t>(size);
    }
  }

 private:
  pid_t child_ = 0;
  int socket_ = 0;
};

class Wire {
 public:
  Wire(size_t rows, size_t floats)
      : rows_(rows),
        obs_bytes_(floats * sizeof(float)),
        chunk_(rows * (obs_bytes_ + kOtherBytes) + kSegments * obs_bytes_, '\0'),
        obs_(kChunks * rows * obs_bytes_),
        other_(kChunks * rows * kOtherBytes),
        final_obs_(kChunks * kSegments * obs_bytes_),
        draw_(static_cast<uint32_t>(kChunks * rows)),
        ids_(rows),
        drawn_obs_(rows * obs_bytes_),
        drawn_next_obs_(rows * obs_bytes_),
        drawn_other_(rows * kOtherBytes) {
    for (size_t i = 0; i < chunk_.size(); ++i) chunk_[i] = static_cast<char>(i * 7 % 251);
    received_ = std::string(chunk_.size(), '\0');
    sender_ = std::make_unique<Sender>(chunk_);
    for (size_t i = 0; i < kChunks; ++i) (*this)();
    CheckDraw();
  }

  void operator()() {
    sender_->Receive(&received_);
    const char* const from = received_.data();
    const size_t obs_size = rows_ * obs_bytes_;
    const size_t final_size = kSegments * obs_bytes_;
    std::memcpy(&obs_[at_ * obs_size], from, obs_size);
    std::memcpy(&final_obs_[at_ * final_size], from + obs_size, final_size);
    std::memcpy(&other_[at_ * rows_ * kOtherBytes], from + obs_size + final_size,
                rows_ * kOtherBytes);
    at_ = (at_ + 1) % kChunks;

    draw_.Draw(&ids_);
    if (obs_bytes_ == 16) {
      Gather<16>();
    } else {
      Gather<0>();
    }
  }

 private:
  // The columns of a chunk behind each other: actions, rewards, iterations.
  template <size_t kBytes>
  void Gather() {
    const size_t bytes = kBytes == 0 ? obs_bytes_ : kBytes;
    const size_t length = rows_ / kSegments;
    char* obs = drawn_obs_.data();
    char* next_obs = drawn_next_obs_.data();
    char* other = drawn_other_.data();
    for (const uint32_t id : ids_) {
      const size_t chunk = id / rows_;
      const size_t row = id % rows_;
      const bool last = (row + 1) % length == 0;
      const char* const next =
          last ? &final_obs_[(chunk * kSegments + row / length) * bytes] : &obs_[(id + 1) * bytes];
      std::memcpy(obs, &obs_[id * bytes], bytes);
      std::memcpy(next_obs, next, bytes);
      const char* const columns = &other_[chunk * rows_ * kOtherBytes];
      std::memcpy(other, columns + 8 * row, 8);
      std::memcpy(other + 8, columns + 8 * rows_ + 4 * row, 4);
      std::memcpy(other + 12, columns + 12 * rows_ + 8 * row, 8);
      obs += bytes;
      next_obs += bytes;
      other += kOtherBytes;
    }
  }

  void CheckDraw() const {
    for (size_t i = 0; i < rows_; ++i) {
      const size_t row = ids_[i] % rows_;
      const bool last = (row + 1) % (rows_ / kSegments) == 0;
      const size_t next = last ? rows_ + row / (rows_ / kSegments) : row + 1;
      const char* const action = &chunk_[(rows_ + kSegments) * obs_bytes_ + 8 * row];
      Require(
          std::memcmp(&drawn_obs_[i * obs_bytes_], &chunk_[row * obs_bytes_], obs_bytes_) == 0 &&
              std::memcmp(&drawn_next_obs_[i * obs_bytes_], &chunk_[next * obs_bytes_],
                          obs_bytes_) == 0 &&
              std::memcmp(&drawn_other_[i * kOtherBytes], action, 8) == 0,
          "a row was lost on the wire");
    }
  }

  const size_t rows_;
  const size_t obs_bytes_;
  std::string chunk_;
  std::string received_;
  std::unique_ptr<Sender> sender_;
  std::vector<char> obs_;
  std::vector<char> other_;
  std::vector<char> final_obs_;
  size_t at_ = 0;
  DistinctDraw draw_;
  std::vector<uint32_t> ids_;
  std::vector<char> drawn_obs_;
  std::vector<char> drawn_next_obs_;
  std::vector<char> drawn_other_;
};

}  // namespace

void AddWireFloors() {
  const auto add = [](size_t rows, size_t floats, double aim) {
    AddFloor("parallel_path_benchmark:Rows/" + std::to_string(rows) + "/" + std::to_string(floats),
             aim, rows, [rows, floats] { return Wire(rows, floats); })
        ->UseRealTime();
  };
  add(128, 4, 0.67);
  add(1024, 4, 0.63);
  add(16, 1024, 0);
}

}  // namespace floors
