// Makes mutants (damaged copies) of well-formed bytes, for tests of decoders. A mutant depends on
// its seed only, and there are as many as one has time for.
//
// Each round has its own seed. The first rounds count up from seed 0, so that what a test expects
// of all rounds together does not depend on chance. When tools/test runs the test, the same number
// of rounds follows from a seed that is derived from the commit: every commit tries other mutants,
// and the same commit always the same ones. The environment variable DING_FUZZ_SEED replaces both
// first seeds by one, and DING_FUZZ_ROUNDS sets the number of rounds for each first seed. A failure
// prints the two settings that repeat it.
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

// Makes mutants of well-formed bytes: it changes bytes, numbers and structure.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : rng_(seed, "mutator") {}

  // Returns a copy of `bytes` with one to four random changes.
  std::string Mutate(std::string bytes);
  // True or false with equal probability.
  bool Coin() { return rng_.UniformInt(2) == 0; }
  // The random stream, for the test's own decisions.
  Rng* rng() { return &rng_; }

 private:
  size_t Place(const std::string& bytes) { return rng_.UniformInt(bytes.size() + 1); }
  void MutateOnce(std::string* bytes);
  void OverwriteNumber(size_t at, std::string* bytes);
  void ReplaceDigits(size_t at, std::string* bytes);

  Rng rng_;
};

// Replaces the last four bytes by the checksum of the bytes before them, which is where our formats
// have it. With a wrong checksum, a mutant would be refused before it reaches the code that is to
// be tested.
std::string WithChecksum(std::string bytes);

// The first seeds: 0 and, if tools/test runs the test, the seed of the commit.
std::vector<uint64_t> FirstFuzzSeeds();
// The last of FirstFuzzSeeds(), for a test that takes one seed.
uint64_t FirstFuzzSeed();
// The number of rounds: DING_FUZZ_ROUNDS, or `ordinarily` if it is not set.
uint64_t FuzzRounds(uint64_t ordinarily);

// Calls `check(mutator)` in every round until a test assertion fails; the failure's trace has the
// seed.
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
