// The main() of a fuzz test that runs by seeds: tries every file of the corpus and mutants of each.
// The environment variables of base/fuzz_testing.h set the number of mutants and the first seed.
//
//   <test> ROUNDS FILE...

#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "ding_worker/base/fuzz_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace ding {
namespace {

// Names the current input; printed if the process crashes.
char g_trying[512];

void SayWhatWasTried(int signal) {
  (void)!write(STDERR_FILENO, g_trying, std::strlen(g_trying));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void Try(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

int Main(int argc, char** argv) {
  uint64_t rounds = 0;
  if (argc < 3 || !absl::SimpleAtoi(argv[1], &rounds)) {
    std::fprintf(stderr,
                 "expected as arguments: the number of rounds, then the files of the corpus\n");
    return 1;
  }
  std::vector<std::string> corpus;
  for (int i = 2; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    if (file.good() || file.eof()) continue;
    std::fprintf(stderr, "cannot read %s\n", argv[i]);
    return 1;
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) {
    std::signal(signal, SayWhatWasTried);
  }
  std::fprintf(stderr, "trying %zu inputs of the corpus\n", corpus.size());
  for (size_t i = 0; i < corpus.size(); ++i) {
    std::snprintf(g_trying, sizeof(g_trying), "it failed with %s\n", argv[i + 2]);
    Try(corpus[i]);
  }
  const uint64_t first = FirstFuzzSeed();
  rounds = FuzzRounds(rounds);
  std::fprintf(stderr, "trying %llu mutants of each, from seed %llu on\n",
               static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(first));
  for (uint64_t seed = first; seed < first + rounds; ++seed) {
    for (size_t i = 0; i < corpus.size(); ++i) {
      Mutator mutator(seed);
      const std::string input = mutator.Mutate(corpus[i]);
      std::snprintf(g_trying, sizeof(g_trying),
                    "it failed with a mutant of %s: DING_FUZZ_SEED=%llu DING_FUZZ_ROUNDS=1\n",
                    argv[i + 2], static_cast<unsigned long long>(seed));
      Try(input);
    }
  }
  return 0;
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) { return ding::Main(argc, argv); }
