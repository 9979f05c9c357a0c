// Tests that config texts, settings and the bytes in an Any are read or refused, whatever they are,
// and that what was read can be printed and read again. The first byte of an input says what the
// rest is:
//   's'  PATH=VALUE, applied to a config
//   'b'  the content of an Any
//   else a config text

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/ppo/ppo.pb.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/testing/sample_config.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

std::string Joined(const std::vector<std::string>& problems) {
  return absl::StrJoin(problems, "\n");
}

// Does what a program does with a config that it has read.
void CheckUsable(ExperimentConfig config) {
  FillInDefaults(&config);
  const std::string printed = PrintTextConfig(config);
  ExperimentConfig again;
  const std::vector<std::string> problems = ParseTextConfig(printed, "printed", &again);
  DING_CHECK(problems.empty()) << Joined(problems) << "\n" << printed;
  FillInDefaults(&again);
  DING_CHECK(PrintTextConfig(again) == printed) << printed;
}

void TryText(absl::string_view text) {
  ExperimentConfig config;
  const std::vector<std::string> problems = ParseTextConfig(text, "input", &config);
  for (const std::string& problem : problems) {
    DING_CHECK(absl::StartsWith(problem, "input:")) << problem;
  }
  if (problems.empty()) CheckUsable(config);
}

void TrySetting(absl::string_view setting) {
  static const ExperimentConfig* const kParsed = [] {
    auto* const config = new ExperimentConfig;
    DING_CHECK(ParseTextConfig(kSampleConfig, "config", config).empty());
    // Types that inputs may name in an Any must be linked.
    (void)DqnConfig::descriptor();
    (void)PpoConfig::descriptor();
    return config;
  }();
  ExperimentConfig config = *kParsed;
  const absl::Status status = ApplySetting(setting, &config);
  if (status.ok()) return CheckUsable(config);
  DING_CHECK(absl::IsInvalidArgument(status)) << status;
  DING_CHECK(config.SerializeAsString() == kParsed->SerializeAsString()) << "it was changed";
}

void TryContent(absl::string_view bytes) {
  ExperimentConfig config;
  config.mutable_policy()->mutable_params()->set_type_url("type.googleapis.com/ding.DqnConfig");
  config.mutable_policy()->mutable_params()->set_value(std::string(bytes));
  if (CheckConfigContent(config).ok()) CheckUsable(config);
}

void TryInput(absl::string_view input) {
  if (absl::StartsWith(input, "s")) {
    TrySetting(input.substr(1));
  } else if (absl::StartsWith(input, "b")) {
    TryContent(input.substr(1));
  } else {
    TryText(input);
  }
}

TEST(TextConfigFuzz, InputIsReadOrRefused) {
  std::vector<std::string> corpus;
  for (const auto& file :
       std::filesystem::directory_iterator("worker/config/text_config_fuzz_test_corpus")) {
    DING_ASSERT_OK_AND_ASSIGN(corpus.emplace_back(), ReadFile(file.path().string()));
    TryInput(corpus.back());
  }
  ASSERT_FALSE(corpus.empty());
  std::sort(corpus.begin(), corpus.end());  // Folders have no order.
  Fuzz(300 * corpus.size(), [&corpus](Mutator* mutator) {
    TryInput(mutator->Mutate(corpus[mutator->rng()->UniformInt(corpus.size())]));
  });
}

}  // namespace
}  // namespace ding
