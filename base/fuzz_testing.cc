#include "ding_worker/base/fuzz_testing.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/crc32c.h"

namespace ding {
namespace {

constexpr const char* kNumbers[] = {"0",
                                    "1",
                                    "7",
                                    "8",
                                    "-1",
                                    "1e3",
                                    "0.5",
                                    "4294967296",
                                    "9223372036854775807",
                                    "9223372036854775808",
                                    "18446744073709551615",
                                    "99999999999999999999999",
                                    "1e999"};
constexpr const char* kTokens[] = {
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "\"dtype\":\"F64\",",
    "\"shape\":[0],",
    "\"data_offsets\":[0,0],",
    "[[[[[[[[[[[[[",
    "\"name\":\"x.safetensors\",",
    "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"};

uint64_t FromEnv(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  uint64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// The seed of the commit, from base/fuzz_seed.txt among the test's files. 0 if there is no such
// file, for example when a test program is started by hand.
uint64_t SeedOfCommit() {
  const char* const files = std::getenv("TEST_SRCDIR");
  const char* const workspace = std::getenv("TEST_WORKSPACE");
  if (files == nullptr || workspace == nullptr) return 0;
  uint64_t seed = 0;
  std::ifstream(absl::StrCat(files, "/", workspace, "/base/fuzz_seed.txt")) >> seed;
  return seed;
}

}  // namespace

std::vector<uint64_t> FirstFuzzSeeds() {
  if (std::getenv("DING_FUZZ_SEED") != nullptr) return {FromEnv("DING_FUZZ_SEED", 0)};
  const uint64_t of_commit = SeedOfCommit();
  return of_commit == 0 ? std::vector<uint64_t>{0} : std::vector<uint64_t>{0, of_commit};
}

uint64_t FirstFuzzSeed() { return FirstFuzzSeeds().back(); }

uint64_t FuzzRounds(uint64_t ordinarily) { return FromEnv("DING_FUZZ_ROUNDS", ordinarily); }

std::string WithChecksum(std::string bytes) {
  if (bytes.size() < sizeof(uint32_t)) return bytes;
  bytes.resize(bytes.size() - sizeof(uint32_t));
  const uint32_t crc = Crc32c(bytes);
  bytes.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
  return bytes;
}

std::string Mutator::Mutate(std::string bytes) {
  for (uint64_t left = 1 + rng_.UniformInt(4); left > 0; --left) MutateOnce(&bytes);
  return bytes;
}

void Mutator::MutateOnce(std::string* bytes) {
  const size_t at = Place(*bytes);
  const size_t length = std::min<size_t>(rng_.UniformInt(40), bytes->size() - at);
  switch (rng_.UniformInt(8)) {
    case 0:
      if (at < bytes->size())
        (*bytes)[at] = static_cast<char>((*bytes)[at] ^ 1 << rng_.UniformInt(8));
      break;
    case 1:
      if (at < bytes->size()) (*bytes)[at] = static_cast<char>(rng_.Next32());
      break;
    case 2:
      bytes->erase(at, length);
      break;
    case 3:
      bytes->insert(at, bytes->substr(Place(*bytes), length));
      break;
    case 4:
      bytes->resize(at);
      break;
    case 5:
      OverwriteNumber(at, bytes);
      break;
    case 6:
      ReplaceDigits(at, bytes);
      break;
    default:
      bytes->insert(at, kTokens[rng_.UniformInt(std::size(kTokens))]);
  }
}

// Overwrites bytes with a binary number that code for sizes often handles wrongly.
void Mutator::OverwriteNumber(size_t at, std::string* bytes) {
  const uint64_t interesting[] = {
      0,          1,          0x7f,       0xff,         0x7fffffff,   0xffffffff,
      1ull << 32, 1ull << 62, 1ull << 63, ~uint64_t{0}, rng_.Next64()};
  const uint64_t value = interesting[rng_.UniformInt(std::size(interesting))];
  const size_t width = size_t{1} << rng_.UniformInt(4);
  if (at + width <= bytes->size()) std::memcpy(&(*bytes)[at], &value, width);
}

// Replaces the first decimal number at or after `at` by another one.
void Mutator::ReplaceDigits(size_t at, std::string* bytes) {
  static constexpr char kDigits[] = "0123456789";
  const size_t begin = bytes->find_first_of(kDigits, at);
  if (begin == std::string::npos) return;
  size_t end = bytes->find_first_not_of(kDigits, begin);
  if (end == std::string::npos) end = bytes->size();
  bytes->replace(begin, end - begin, kNumbers[rng_.UniformInt(std::size(kNumbers))]);
}

}  // namespace ding
