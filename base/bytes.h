// Numbers as bytes, little endian, for wire and file formats: appended to a string, and taken off
// the front of bytes that may be anything.
//
// Threads: AppendNumber is thread-safe; a ByteCursor is thread-compatible.
//
// Example:
//   ByteCursor cursor(bytes);
//   const auto version = cursor.Take<uint16_t>();
//   const absl::string_view name = cursor.TakeBytes(cursor.Take<uint32_t>());
//   if (!cursor.ok()) return absl::DataLossError("...");
#ifndef DING_WORKER_BASE_BYTES_H_
#define DING_WORKER_BASE_BYTES_H_

#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include "absl/strings/string_view.h"

namespace ding {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "our formats are little endian");

template <typename T>
void AppendNumber(T value, std::string* out) {
  static_assert(std::is_arithmetic_v<T>);
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Does not own the bytes. After the first value that is not there, all fail: check once at the end.
class ByteCursor {
 public:
  explicit ByteCursor(absl::string_view bytes) : bytes_(bytes) {}

  // 0 if it is not there.
  template <typename T>
  T Take() {
    static_assert(std::is_arithmetic_v<T>);
    T value{};
    const absl::string_view taken = TakeBytes(sizeof(T));
    if (ok_) std::memcpy(&value, taken.data(), sizeof(T));
    return value;
  }
  // Empty if they are not there.
  absl::string_view TakeBytes(size_t size) {
    ok_ = ok_ && size <= bytes_.size();
    if (!ok_) return {};
    const absl::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  bool ok() const { return ok_; }
  // Bytes that are not taken yet.
  size_t left() const { return bytes_.size(); }

 private:
  absl::string_view bytes_;
  bool ok_ = true;
};

}  // namespace ding

#endif  // DING_WORKER_BASE_BYTES_H_
