#include "ding_worker/worker/run_folder/paths.h"

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/env/gymnasium/gymnasium.pb.h"
#include "ding_worker/env/mujoco/mujoco.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

// Tests work in a temporary folder, which is the current folder.
class PathsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = absl::StrCat(testing::TempDir(), "/paths_XXXXXX");
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    char* const real = realpath(folder.c_str(), nullptr);
    folder_ = real;
    free(real);
    ASSERT_EQ(chdir(folder_.c_str()), 0);
  }
  void TearDown() override {
    ASSERT_EQ(chdir("/"), 0);
    EXPECT_THAT(RemoveRecursively(folder_), IsOk());
  }

  std::string Here(absl::string_view path) const { return JoinPath(folder_, path); }

  std::string folder_;
};

TEST_F(PathsTest, EverySpellingOfAPathIsTheSame) {
  ASSERT_THAT(CreateDirectories("run"), IsOk());
  for (const char* spelling :
       {"run", "run/", "./run", "run/.", "run/../run", ".//run//", "new/../run"}) {
    EXPECT_EQ(AbsolutePath(spelling).value(), Here("run")) << spelling;
  }
  EXPECT_EQ(AbsolutePath(Here("run/")).value(), Here("run"));
  EXPECT_EQ(AbsolutePath(".").value(), folder_);
  EXPECT_EQ(AbsolutePath("/").value(), "/");
  EXPECT_EQ(AbsolutePath("").value(), "");
  EXPECT_EQ(AbsolutePath("a b:c?é").value(), Here("a b:c?é"));
}

TEST_F(PathsTest, LinksStayButForThoseBeforeTwoDots) {
  ASSERT_THAT(CreateDirectories("disk/deep"), IsOk());
  ASSERT_EQ(symlink("disk/deep", "link"), 0);
  EXPECT_EQ(AbsolutePath("link/run").value(), Here("link/run"));
  // The system resolves the link first, too.
  EXPECT_EQ(AbsolutePath("link/../run").value(), Here("disk/run"));
}

TEST_F(PathsTest, WithoutACurrentFolderARelativePathIsRefused) {
  ASSERT_THAT(CreateDirectories("gone"), IsOk());
  ASSERT_EQ(chdir("gone"), 0);
  ASSERT_EQ(rmdir(Here("gone").c_str()), 0);
  EXPECT_THAT(AbsolutePath("run"), StatusIs(absl::StatusCode::kFailedPrecondition,
                                            HasSubstr("'run' is seen from the current folder")));
  EXPECT_EQ(AbsolutePath("/run").value(), "/run");
}

TEST_F(PathsTest, StoresOfFilesAndTheirPasswords) {
  EXPECT_EQ(AbsoluteStoreUrl("file:store/").value(), "file:" + Here("store"));
  EXPECT_EQ(AbsoluteStoreUrl("file:store?compress=lz4").value(),
            absl::StrCat("file:", Here("store"), "?compress=lz4"));
  EXPECT_EQ(AbsoluteStoreUrl("redis:host:1/x?password_file=secret&compress=lz4").value(),
            absl::StrCat("redis:host:1/x?password_file=", Here("secret"), "&compress=lz4"));
  EXPECT_EQ(
      AbsoluteStoreUrl("rediss:host:1/x?tls_ca=ca.pem&tls_cert=c.pem&tls_key=/k&user=me").value(),
      absl::StrCat("rediss:host:1/x?tls_ca=", Here("ca.pem"), "&tls_cert=", Here("c.pem"),
                   "&tls_key=/k&user=me"));
  for (const char* other :
       {"file:/a", "file:", "mem:", "mem:a", "nonsense", "redis:host:1/x", ""}) {
    EXPECT_EQ(AbsoluteStoreUrl(other).value(), other);
  }
}

// This test covers every path in a config. A path that is resolved from the run's folder stays
// relative.
TEST_F(PathsTest, EveryPathOfAConfig) {
  ExperimentConfig config;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    data_set { path: "a.episodes" }
    policy {
      learn { learner { hook { load_ckpt_before_run: "b" hook { path: "c" } hook { type: "t" } } } }
      eval { opponent_checkpoint: "d" }
    }
    system { store_url: "file:e" }
  )",
                                                            &config));
  ASSERT_THAT(MakePathsAbsolute(&config), IsOk());
  EXPECT_EQ(config.data_set().path(), Here("a.episodes"));
  const LearnerHooksConfig& hooks = config.policy().learn().learner().hook();
  EXPECT_EQ(hooks.load_ckpt_before_run(), Here("b"));
  EXPECT_EQ(hooks.hook(0).path(), Here("c"));
  EXPECT_FALSE(hooks.hook(1).has_path());
  EXPECT_EQ(config.policy().eval().opponent_checkpoint(), Here("d"));
  EXPECT_EQ(config.system().store_url(), "file:" + Here("e"));

  ExperimentConfig empty;
  ASSERT_THAT(MakePathsAbsolute(&empty), IsOk());
  EXPECT_EQ(empty.DebugString(), "");
}

TEST_F(PathsTest, PathsInParamsOfEnvs) {
  ExperimentConfig config;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    env {
      params { [type.googleapis.com/ding.GymnasiumConfig] {
        entry_point: "envs.mine:Env" python: "venv/bin/python" python_path: "lib" python_path: "/a" } }
      evaluator_params { [type.googleapis.com/ding.GymnasiumConfig] { python: "python3" } }
      eval_opponent { evaluator_params { [type.googleapis.com/ding.MjcfParams] { model_file: "a.xml" } } }
    }
  )",
                                                            &config));
  ASSERT_THAT(CreateDirectories("envs"), IsOk());
  const auto params = [&] {
    GymnasiumConfig params;
    EXPECT_TRUE(config.env().params().UnpackTo(&params));
    return params;
  };
  ASSERT_THAT(MakePathsAbsolute(&config), IsOk());
  EXPECT_EQ(params().python(), Here("venv/bin/python"));
  EXPECT_THAT(params().python_path(), testing::ElementsAre(Here("lib"), "/a"));
  GymnasiumConfig evaluator;
  ASSERT_TRUE(config.env().evaluator_params().UnpackTo(&evaluator));
  EXPECT_EQ(evaluator.python(), "python3") << "a name, which is looked up in PATH";
  MjcfParams model;
  ASSERT_TRUE(config.env().eval_opponent(0).evaluator_params().UnpackTo(&model));
  EXPECT_EQ(model.model_file(), Here("a.xml"));

  // The module lies in the current folder.
  ASSERT_THAT(KeepPythonFolders(&config), IsOk());
  ASSERT_THAT(KeepPythonFolders(&config), IsOk());
  EXPECT_THAT(params().python_path(), testing::ElementsAre(Here("lib"), "/a", folder_));
  ASSERT_TRUE(config.env().evaluator_params().UnpackTo(&evaluator));
  EXPECT_THAT(evaluator.python_path(), testing::IsEmpty());
}

TEST_F(PathsTest, OnlyAProgramThatBazelStartedIsInTheWrongFolder) {
  setenv("BUILD_WORKING_DIRECTORY", "/somewhere", 1);
  EXPECT_EQ(CallersFolder(), "");
  EXPECT_THAT(EnterCallersFolder(), IsOk());
  EXPECT_EQ(AbsolutePath("run").value(), Here("run"));
  unsetenv("BUILD_WORKING_DIRECTORY");
}

TEST_F(PathsTest, QuotesShellWords) {
  EXPECT_EQ(ShellWord("/runs/a-1"), "/runs/a-1");
  EXPECT_EQ(ShellWord("/runs/a b"), "'/runs/a b'");
  EXPECT_EQ(ShellWord("it's"), R"('it'\''s')");
}

}  // namespace
}  // namespace ding
