#include "ding_worker/policy/export/exporter.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor.h"
#include "ding_worker/policy/actor/actor_model.h"
#include "ding_worker/policy/actor/testing/actor_checkpoints.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using testing::ElementsAre;
using Json = nlohmann::json;

class ExporterTest : public testing::Test {
 protected:
  ExporterTest() : path_(JoinPath(testing::TempDir(), "exporter_test")) {
    EXPECT_THAT(RemoveRecursively(path_), IsOk());
  }
  void Save(const ActorCase& of) { SaveActorCheckpoint(of, MakeRandomPolicy(of).get(), path_); }

  const std::string path_;
};

ActorModel WithConvolution() {
  ActorModel model;
  model.convolutions.resize(1);
  model.convolutions[0].emplace_back();
  model.convolutions[0][0].layer.name = "conv/0";
  return model;
}

TEST_F(ExporterTest, WritesTheFilesAndTheGoldenRows) {
  const ActorCase of = FindActorCase("R2d2Lstm");
  Save(of);
  const std::string output = JoinPath(path_, "new/folder");
  DING_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> files,
                            ExportCheckpoint(path_, "c", output));
  EXPECT_THAT(files, ElementsAre(JoinPath(output, "policy.h"), JoinPath(output, "policy.c"),
                                 JoinPath(output, "golden.json")));
  DING_ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(files[2]));
  const Json golden = Json::parse(text);
  const Json& inputs = golden["inputs"];
  EXPECT_EQ(inputs.size(), 4u);  // obs/own, obs/action_mask, obs/other, state
  EXPECT_EQ(inputs["obs/other"]["shape"], (std::vector<int64_t>{16, 2, 2}));
  EXPECT_EQ(inputs["obs/other"]["data"].size(), 64u);
  EXPECT_EQ(inputs["state"]["shape"], (std::vector<int64_t>{16, 38}));
  EXPECT_EQ(golden["outputs"]["action"]["shape"], (std::vector<int64_t>{16}));
  EXPECT_EQ(golden["outputs"]["q"]["shape"], (std::vector<int64_t>{16, 4}));
  EXPECT_NE(golden["outputs"]["next_state"]["data"], inputs["state"]["data"]);
  const std::vector<int64_t> actions = golden["outputs"]["action"]["data"];
  const std::vector<int64_t> mask = inputs["obs/action_mask"]["data"];
  for (size_t row = 0; row < actions.size(); ++row) {
    EXPECT_EQ(mask[row * 4 + static_cast<size_t>(actions[row])], 1);
  }
}

TEST_F(ExporterTest, NamesTheFormatsThatThereAre) {
  Save(FindActorCase("Bc"));
  EXPECT_THAT(ExportCheckpoint(path_, "tflite", path_).status(),
              IsNotFound("unknown export format type 'tflite'; this program has: c, onnx"));
}

TEST_F(ExporterTest, AnExporterOfAUserThatThrowsOrReturnsNoneIsNamed) {
  Save(FindActorCase("Bc"));
  const auto refusal = [&](const Exporter& exporter) {
    const ScopedRegistration<Exporter> scoped(&ExporterRegistry(), "mine", exporter);
    return ExportCheckpoint(path_, "mine", path_ + "_out").status();
  };
  EXPECT_THAT(refusal([](const ActorModel&) -> absl::StatusOr<std::vector<ExportedFile>> {
                throw std::runtime_error("out of ideas");
              }),
              IsInternal("export format 'mine' threw an exception: out of ideas"));
  EXPECT_THAT(refusal([](const ActorModel&) { return std::vector<ExportedFile>(); }),
              IsInternal("export format 'mine' returned no files, expected at least one"));
}

TEST_F(ExporterTest, CNamesTheLayerThatItCannotHold) {
  DING_ASSERT_OK_AND_ASSIGN(const Exporter exporter, ExporterRegistry().Find("c"));
  EXPECT_THAT(exporter(WithConvolution()).status(),
              IsError(absl::StatusCode::kUnimplemented,
                      "layer 'conv/0' is a convolution, which C source cannot hold"));
}

TEST_F(ExporterTest, RefusesHeadsThatItDoesNotKnow) {
  Save(FindActorCase("Bc"));
  DING_ASSERT_OK_AND_ASSIGN(LoadedActor loaded, LoadActorModel(path_));
  loaded.model.description.head = "beta";
  for (const std::string& format : ExporterRegistry().Names()) {
    DING_ASSERT_OK_AND_ASSIGN(const Exporter exporter, ExporterRegistry().Find(format));
    EXPECT_THAT(exporter(loaded.model).status(),
                IsError(absl::StatusCode::kUnimplemented, "found head 'beta'"))
        << format;
  }
}

TEST_F(ExporterTest, EqualCheckpointsGiveEqualFiles) {
  Save(FindActorCase("PpoGru"));
  for (const std::string& format : ExporterRegistry().Names()) {
    std::vector<std::string> contents[2];
    for (std::vector<std::string>& content : contents) {
      DING_ASSERT_OK_AND_ASSIGN(const auto files, ExportCheckpoint(path_, format, path_ + "_out"));
      for (const std::string& file : files) content.push_back(ReadFile(file).value());
    }
    EXPECT_EQ(contents[0], contents[1]);
  }
}

TEST_F(ExporterTest, ExportsALargeNetwork) {
  ActorCase of = FindActorCase("Bc");
  of.config = R"(type: 'bc' params { [type.googleapis.com/ding.BcConfig] {
                 model { encoder_hidden_size: [256, 256] } } })";
  Save(of);
  for (const std::string& format : ExporterRegistry().Names()) {
    EXPECT_THAT(ExportCheckpoint(path_, format, path_ + "_out"), IsOk()) << format;
  }
}

}  // namespace
}  // namespace ding
