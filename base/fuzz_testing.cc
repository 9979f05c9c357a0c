#include "ding_worker/base/fuzz_testing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/crc32c.h"
#include "gtest/gtest.h"

// libFuzzer has it; it is null in all other programs.
extern "C" __attribute__((weak)) int LLVMFuzzerRunDriver(int* argc, char*** argv,
                                                         int (*try_input)(const uint8_t* data,
                                                                          size_t size));

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

// In an input of a coverage-guided fuzzer, the remainder of a decision chooses the mutant:
//   kRest  all bytes of the input, except the bytes of a few decisions
//   kPart  a part of them; the next decision is its size
//   else   a mutant of the same kind as a seed makes
constexpr uint16_t kRest = 0;
constexpr uint16_t kPart = 2;
constexpr size_t kKeptDecisions = 8;

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

class FuzzerByCoverage {
 public:
  // Runs all tests that the flags of the program select; Run() of the first one ends the program.
  static void RunTests(int* argc, char*** argv) {
    if (argc_ != nullptr) return;  // libFuzzer was started by Run().
    argc_ = argc;
    argv_ = argv;
    testing::InitGoogleTest(argc, *argv);
    const int status = RUN_ALL_TESTS();
    if (testing::GTEST_FLAG(list_tests)) std::exit(status);
    std::fprintf(stderr, "no test called Fuzz(): select one by GTEST_FILTER\n");
    std::exit(1);
  }

  // Tries inputs of libFuzzer until its flags tell it to end, and ends the program.
  static void Run(absl::FunctionRef<void(Mutator*)> check) {
    check_ = &check;
    RecordCorpus();
    LLVMFuzzerRunDriver(argc_, argv_, [](const uint8_t* data, size_t size) {
      Mutator mutator(0);
      mutator.source_ = Mutator::Source::kInput;
      mutator.input_ = absl::string_view(reinterpret_cast<const char*>(data), size);
      Try(&mutator);
      return 0;
    });
    std::exit(1);
  }

 private:
  static void Try(Mutator* mutator) {
    (*check_)(mutator);
    if (testing::Test::HasFailure()) std::abort();
  }

  // Writes inputs without damage into the first folder of the arguments, to begin with.
  static void RecordCorpus() {
    const char* folder = nullptr;
    for (int i = *argc_ - 1; i > 0; --i) {
      if ((*argv_)[i][0] != '-') folder = (*argv_)[i];
    }
    if (folder == nullptr || !std::filesystem::is_directory(folder)) return;
    for (uint64_t seed = 0; seed < 50; ++seed) {
      Mutator mutator(seed);
      mutator.source_ = Mutator::Source::kRecorded;
      Try(&mutator);
      std::ofstream(absl::StrCat(folder, "/good_", seed), std::ios::binary) << mutator.Recorded();
    }
  }

  static int* argc_;
  static char*** argv_;
  static const absl::FunctionRef<void(Mutator*)>* check_;
};

int* FuzzerByCoverage::argc_ = nullptr;
char*** FuzzerByCoverage::argv_ = nullptr;
const absl::FunctionRef<void(Mutator*)>* FuzzerByCoverage::check_ = nullptr;

void Fuzz(uint64_t rounds, absl::FunctionRef<void(Mutator*)> check) {
  if (LLVMFuzzerRunDriver != nullptr) FuzzerByCoverage::Run(check);
  rounds = FuzzRounds(rounds);
  for (const uint64_t first : FirstFuzzSeeds()) {
    for (uint64_t seed = first; seed < first + rounds; ++seed) {
      SCOPED_TRACE(testing::Message() << "DING_FUZZ_SEED=" << seed << " DING_FUZZ_ROUNDS=1");
      Mutator mutator(seed);
      check(&mutator);
      if (testing::Test::HasFailure()) return;
    }
  }
}

uint16_t Mutator::Decide() {
  uint16_t decision = 0;
  if (source_ == Source::kRecorded) {
    decision = static_cast<uint16_t>(recording_.Next32());
    decisions_.push_back(decision);
  } else if (input_.size() < sizeof(decision)) {
    input_ = {};
    decision = ++after_input_;  // Others than before, so that a loop until a decision ends.
  } else {
    std::memcpy(&decision, input_.end() - sizeof(decision), sizeof(decision));
    input_.remove_suffix(sizeof(decision));
  }
  return decision;
}

std::string Mutator::Recorded() const {
  std::vector<uint16_t> decisions = decisions_;
  // The last mutant may grow if the decisions after it are few.
  if (last_mutant_ > 0 && decisions.size() <= last_mutant_ + 1 + kKeptDecisions) {
    decisions[last_mutant_ - 1] = kRest;
    decisions.erase(decisions.begin() + static_cast<std::ptrdiff_t>(last_mutant_));
    decisions.resize(last_mutant_ + kKeptDecisions);
  }
  std::string input = recorded_;
  for (auto it = decisions.rbegin(); it != decisions.rend(); ++it) {
    input.append(reinterpret_cast<const char*>(&*it), sizeof(*it));
  }
  return input;
}

std::string Mutator::Mutate(std::string bytes) {
  if (source_ == Source::kRecorded) {
    decisions_.insert(decisions_.end(), {kPart, static_cast<uint16_t>(bytes.size())});
    last_mutant_ = decisions_.size() - 1;
    recorded_ += bytes;
    return bytes;
  }
  if (source_ == Source::kInput) {
    const uint16_t how = Decide();
    const uint16_t kind = how % 4;
    if (kind == kRest || kind == kPart) {
      constexpr size_t kKept = kKeptDecisions * sizeof(how);
      const size_t size = kind == kPart ? Decide() : input_.size() - std::min(kKept, input_.size());
      std::string mutant(input_.substr(0, size));
      input_.remove_prefix(mutant.size());
      return mutant;
    }
    rng_ = Rng(how, "mutator");
  }
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

// libFuzzer's main() calls them.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  ding::FuzzerByCoverage::RunTests(argc, argv);
  return 0;
}
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* /*data*/, size_t /*size*/) { return 0; }
