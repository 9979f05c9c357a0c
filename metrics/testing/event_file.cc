#include "ding_worker/metrics/testing/event_file.h"

#include <cstdint>

#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::ding::tensorboard::Event;

uint32_t BitwiseCrc32c(absl::string_view bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
  }
  return ~crc;
}

uint64_t LittleEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

void CheckMaskedCrc(absl::string_view bytes, absl::string_view stored) {
  const uint32_t crc = BitwiseCrc32c(bytes);
  EXPECT_EQ(LittleEndian(stored), static_cast<uint32_t>((crc >> 15 | crc << 17) + 0xA282EAD8u));
}

}  // namespace

std::vector<Event> ReadEvents(const std::string& path) {
  const std::string content = ReadFile(path).value_or("cannot be read");
  std::vector<Event> events;
  absl::string_view rest = content;
  while (rest.size() >= 12) {
    CheckMaskedCrc(rest.substr(0, 8), rest.substr(8, 4));
    const uint64_t size = LittleEndian(rest.substr(0, 8));
    if (rest.size() < size + 16) break;
    CheckMaskedCrc(rest.substr(12, size), rest.substr(12 + size, 4));
    EXPECT_TRUE(events.emplace_back().ParseFromString(std::string(rest.substr(12, size))));
    rest.remove_prefix(size + 16);
  }
  EXPECT_TRUE(rest.empty()) << "a torn record after " << events.size() << " events";
  return events;
}

}  // namespace ding
