// Packs values into bytes that one process of a program sends to another. There is no version, and
// numbers have the machine's own layout.
//
// Errors: values must be taken in the order in which they were put. Reading past the end returns
//         zeros and makes ok() false: the sender may have died while it wrote.
//
// Example:
//   ProcessMessageWriter out;
//   Put(status, &out);
//   ProcessMessageReader in(out.bytes());
//   const absl::Status status = TakeStatus(&in);
//   if (!in.ok()) ...
#ifndef DING_WORKER_ENV_PROCESS_PROCESS_MESSAGE_H_
#define DING_WORKER_ENV_PROCESS_PROCESS_MESSAGE_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"

namespace ding {

class ProcessMessageWriter {
 public:
  template <typename T>
  void Number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Bytes(absl::string_view bytes) {
    Number(static_cast<int64_t>(bytes.size()));
    bytes_.append(bytes.data(), bytes.size());
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// `bytes` must outlive the reader and the views that Bytes() returned.
class ProcessMessageReader {
 public:
  explicit ProcessMessageReader(absl::string_view bytes) : rest_(bytes) {}

  template <typename T>
  T Number() {
    T value = 0;
    const absl::string_view bytes = Take(sizeof(value));
    if (ok_) std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }
  absl::string_view Bytes() { return Take(Number<int64_t>()); }
  bool ok() const { return ok_; }

 private:
  absl::string_view Take(int64_t size) {
    if (size < 0 || size > static_cast<int64_t>(rest_.size())) ok_ = false;
    if (!ok_) return {};
    const absl::string_view taken = rest_.substr(0, static_cast<size_t>(size));
    rest_.remove_prefix(static_cast<size_t>(size));
    return taken;
  }

  absl::string_view rest_;
  bool ok_ = true;
};

void Put(const absl::Status& status, ProcessMessageWriter* out);
absl::Status TakeStatus(ProcessMessageReader* in);
void Put(const NamedValues& values, ProcessMessageWriter* out);
NamedValues TakeNamedValues(ProcessMessageReader* in);
void Put(const Image& image, ProcessMessageWriter* out);
Image TakeImage(ProcessMessageReader* in);
void Put(const StateDict& state, ProcessMessageWriter* out);
absl::Status TakeState(ProcessMessageReader* in, StateWriter* state);
void Put(const EnvSpec& spec, ProcessMessageWriter* out);
absl::Status TakeEnvSpec(ProcessMessageReader* in, EnvSpec* spec);

}  // namespace ding

#endif  // DING_WORKER_ENV_PROCESS_PROCESS_MESSAGE_H_
