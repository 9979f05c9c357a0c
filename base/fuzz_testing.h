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
// In a program that tools/fuzz builds, Fuzz() does not return: the same check is called for inputs
// of clang's libFuzzer, which prefers inputs that reach new code. The mutator's decisions are then
// read from the input, and most mutants are a part of the input itself. Only the first call of
// Fuzz() in a test is reached, and a test that calls it has "Fuzz" in its name.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_BASE_FUZZ_TESTING_H_
#define DING_WORKER_BASE_FUZZ_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/rng.h"

namespace ding {

// Makes mutants of well-formed bytes: it changes bytes, numbers and structure.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : rng_(seed, "mutator"), recording_(seed, "recording") {}

  // Returns a copy of `bytes` with one to four random changes.
  std::string Mutate(std::string bytes);
  // True or false with equal probability.
  bool Coin() { return rng()->UniformInt(2) == 0; }
  // The random stream, for the test's own decisions. Call it for each decision, rather than to keep
  // the stream: a fuzzer by coverage can then change one decision alone.
  Rng* rng() {
    if (source_ != Source::kSeed) rng_ = Rng(Decide(), "mutator");
    return &rng_;
  }
  // False once the input of a fuzzer by coverage is used up: a run of many steps should end.
  bool more() const {
    return source_ == Source::kInput ? !input_.empty() : decisions_.size() < kMaxRecorded;
  }

 private:
  friend class FuzzerByCoverage;
  enum class Source {
    kSeed,
    kInput,     // of a fuzzer by coverage
    kRecorded,  // a seed; the input that repeats all this without any damage is recorded
  };

  static constexpr size_t kMaxRecorded = 200;

  // An input is the bytes of mutants, one after the other, and then decisions of two bytes, from
  // the last one to the first one.
  uint16_t Decide();
  std::string Recorded() const;
  size_t Place(const std::string& bytes) { return rng_.UniformInt(bytes.size() + 1); }
  void MutateOnce(std::string* bytes);
  void OverwriteNumber(size_t at, std::string* bytes);
  void ReplaceDigits(size_t at, std::string* bytes);

  Rng rng_;
  Rng recording_;  // decisions that are recorded
  Source source_ = Source::kSeed;
  absl::string_view input_;          // what is left of it
  uint16_t after_input_ = 0;         // decisions made since it is used up
  std::string recorded_;             // mutants
  std::vector<uint16_t> decisions_;  // recorded
  size_t last_mutant_ = 0;           // the decision of that number, from 1 on, made it
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
void Fuzz(uint64_t rounds, absl::FunctionRef<void(Mutator*)> check);

}  // namespace ding

#endif  // DING_WORKER_BASE_FUZZ_TESTING_H_
