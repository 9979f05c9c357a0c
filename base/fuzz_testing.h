// For tests of decoders: mutants of well-formed bytes, made of a seed, as many as one has time for.
//
// Each round has a seed of its own. The rounds begin at seed 0, so that what a test expects of all of
// them together does not depend on chance. When tools/test runs the test, as many more begin at a seed
// that follows from the commit: every commit tries other mutants, and the same commit the same ones.
// The environment variable DING_FUZZ_SEED sets the only beginning by hand, DING_FUZZ_ROUNDS how many
// rounds there are of each kind. A failure prints the two that repeat it.
//
//   Fuzz(10000, [&](Mutator* mutator) {
//     const auto decoded = Decode(mutator->Mutate(good));
//     ...
//   });
//
// Threads: thread-compatible.
#ifndef DING_WORKER_BASE_FUZZ_TESTING_H_
#define DING_WORKER_BASE_FUZZ_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ding_worker/base/rng.h"
#include "gtest/gtest.h"

namespace ding {

// Makes mutants of a well-formed text: bytes, numbers and structure.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : rng_(seed, "mutator") {}

  std::string Mutate(std::string bytes);
  bool Coin() { return rng_.UniformInt(2) == 0; }
  // For decisions of the test.
  Rng* rng() { return &rng_; }

 private:
  size_t Place(const std::string& bytes) { return rng_.UniformInt(bytes.size() + 1); }
  void MutateOnce(std::string* bytes);
  void OverwriteNumber(size_t at, std::string* bytes);
  void ReplaceDigits(size_t at, std::string* bytes);

  Rng rng_;
};

// With the checksum of what is before them in the place of the last four bytes, where our formats have
// it: it must not keep mutants from the code behind it.
std::string WithChecksum(std::string bytes);

// Where rounds begin.
std::vector<uint64_t> FirstFuzzSeeds();
// The last of them, for a test that takes one seed.
uint64_t FirstFuzzSeed();
// The number of rounds: `ordinarily` if the environment says nothing.
uint64_t FuzzRounds(uint64_t ordinarily);

// Calls `check(mutator)` for every round, with the seed in the trace of a failure.
template <typename Check>
void Fuzz(uint64_t rounds, Check check) {
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

}  // namespace ding

#endif  // DING_WORKER_BASE_FUZZ_TESTING_H_
