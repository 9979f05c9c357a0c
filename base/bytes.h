// Writes and reads little-endian numbers, for wire and file formats: AppendNumber appends one to a
// string; ByteCursor reads numbers and pieces from the front of bytes, which need not be trusted.
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

// Reads values one after another. Does not own the bytes, which must outlive it. Once a value is
// missing because the bytes end, every later read fails, too, so that it is enough to check ok() at
// the end.
class ByteCursor {
 public:
  explicit ByteCursor(absl::string_view bytes) : bytes_(bytes) {}

  // The next number; 0 if the bytes end before it.
  template <typename T>
  T Take() {
    static_assert(std::is_arithmetic_v<T>);
    T value{};
    const absl::string_view taken = TakeBytes(sizeof(T));
    if (ok_) std::memcpy(&value, taken.data(), sizeof(T));
    return value;
  }
  // The next `size` bytes; empty if there are fewer.
  absl::string_view TakeBytes(size_t size) {
    ok_ = ok_ && size <= bytes_.size();
    if (!ok_) return {};
    const absl::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  // Whether every read so far has succeeded.
  bool ok() const { return ok_; }
  // The number of bytes that are not taken yet.
  size_t left() const { return bytes_.size(); }

 private:
  absl::string_view bytes_;
  bool ok_ = true;
};

}  // namespace ding

#endif  // DING_WORKER_BASE_BYTES_H_
