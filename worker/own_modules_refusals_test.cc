// What becomes of a module of a user that throws, returns none, is registered twice, or is given
// params of another message: the same for every registry, with a sentence that names the module.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/evaluator/metric_evaluator.h"
#include "ding_worker/collector/parallel.pb.h"
#include "ding_worker/collector/parallel/parallel_collector_core.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/coordinator/coordinator.pb.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"
#include "ding_worker/interaction/store/compressed_store.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/learner/learner.pb.h"
#include "ding_worker/learner/stopper.pb.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/sink.pb.h"
#include "ding_worker/policy/export/exporter.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/registry.h"
#include "ding_worker/worker/setup/data_set.h"
#include "ding_worker/worker/setup/supervised_setup.h"
#include "gmock/gmock.h"
#include "google/protobuf/any.pb.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

enum class Fault { kThrows, kReturnsNone, kOtherParams };

constexpr char kType[] = "of_a_user";

// The factory of a module whose params are a ding.RemoverConfig.
template <typename Pointer>
absl::StatusOr<Pointer> Make(Fault fault, const GivenParams& given) {
  if (fault == Fault::kThrows) throw std::runtime_error("out of ideas");
  RemoverConfig params;
  DING_RETURN_IF_ERROR(ReadParams(given, &params));
  return Pointer();
}

template <typename Config>
Config ConfigFor(Fault fault) {
  Config config;
  config.set_type(kType);
  if (fault == Fault::kOtherParams) config.mutable_params()->PackFrom(SinkConfig());
  return config;
}

struct Part {
  std::string kind;
  std::function<absl::Status(Fault)>
      create;  // of the config with this fault, by a factory that has it
  std::function<void()> register_twice;
};

// `faulty` makes what is registered, and `create` what a program would, by name.
template <typename Factory>
Part PartOf(Registry<Factory>* registry,
            const std::function<std::common_type_t<Factory>(Fault)>& faulty,
            const std::function<absl::Status(Fault)>& create) {
  return {registry->kind(),
          [=](Fault fault) {
            const ScopedRegistration<Factory> scoped(registry, kType, faulty(fault));
            return create(fault);
          },
          [=] {
            registry->Register(kType, faulty(Fault::kThrows), "the first one", "mine.cc:1");
            registry->Register(kType, faulty(Fault::kThrows), "the other one", "yours.cc:2");
          }};
}

// The same for a descriptor, whose function `create` makes the module.
template <typename Pointer, typename Descriptor>
Part DescriptorOf(Registry<Descriptor>* registry,
                  const std::function<absl::Status(Fault)>& create) {
  return PartOf(
      registry,
      [](Fault fault) {
        Descriptor descriptor;
        descriptor.create = [fault](const auto& config, const auto&... /*rest*/) {
          return Make<Pointer>(fault, config);
        };
        return descriptor;
      },
      create);
}

template <typename Pointer, typename Factory>
Part FactoryOf(Registry<Factory>* registry, const std::function<absl::Status(Fault)>& create) {
  return PartOf(
      registry,
      [](Fault fault) -> Factory {
        return [fault](const auto& config, const auto&... /*rest*/) {
          return Make<Pointer>(fault, config);
        };
      },
      create);
}

GivenParams Given(Fault fault) {
  static const auto* const kParams = [] {
    auto* const any = new google::protobuf::Any;
    any->PackFrom(SinkConfig());
    return any;
  }();
  return {kType, fault == Fault::kOtherParams ? kParams : nullptr};
}

std::vector<Part> SerialParts() {
  return {
      FactoryOf<std::unique_ptr<Env>>(
          &EnvRegistry(), [](Fault f) { return create_env(ConfigFor<EnvConfig>(f)).status(); }),
      PartOf<EnvWrapperCreator>(
          &EnvWrapperRegistry(),
          [](Fault fault) {
            return OneEnvWrapperCreator([fault](const EnvWrapperConfig& config, const EnvSpec&) {
              return Make<std::unique_ptr<EnvWrapper>>(fault, config);
            });
          },
          [](Fault f) {
            EnvConfig env;
            *env.add_wrapper() = ConfigFor<EnvWrapperConfig>(f);
            return WrappersOf(env)(EnvSpec()).status();
          }),
      FactoryOf<std::unique_ptr<EnvManager>>(
          &EnvGroupRegistry(),
          [](Fault f) {
            return create_envs(ConfigFor<EnvConfig>(f), EnvManagerConfig(), 1, Clock::Real())
                .status();
          }),
      FactoryOf<std::unique_ptr<ISchedule>>(
          &ScheduleRegistry(),
          [](Fault f) { return create_schedule(ConfigFor<FieldScheduleConfig>(f), {}).status(); }),
      FactoryOf<std::unique_ptr<EnvManager>>(
          &EnvManagerRegistry(),
          [](Fault f) {
            return create_env_manager(ConfigFor<EnvManagerConfig>(f), {}, Clock::Real()).status();
          }),
      FactoryOf<std::unique_ptr<Policy>>(
          &PolicyRegistry(),
          [](Fault f) { return create_policy(ConfigFor<PolicyConfig>(f), {}).status(); }),
      FactoryOf<std::unique_ptr<Network>>(
          &NetworkRegistry(),
          [](Fault f) {
            return create_network(ConfigFor<NetworkConfig>(f), nullptr, nullptr, 0).status();
          }),
      FactoryOf<std::unique_ptr<LossFunction>>(
          &LossRegistry(),
          [](Fault f) { return LossRegistry().Create(ConfigFor<LossConfig>(f)).status(); }),
      DescriptorOf<std::unique_ptr<IBuffer>>(
          &BufferRegistry(),
          [](Fault f) { return create_buffer(ConfigFor<BufferConfig>(f), BufferDeps()).status(); }),
      FactoryOf<std::unique_ptr<ISelector>>(
          &SelectorRegistry(),
          [](Fault f) { return create_selector(ConfigFor<SelectorConfig>(f)).status(); }),
      FactoryOf<std::unique_ptr<IRemover>>(
          &RemoverRegistry(),
          [](Fault f) { return create_remover(ConfigFor<RemoverConfig>(f)).status(); }),
      DescriptorOf<std::unique_ptr<ISerialCollector>>(
          &SerialCollectorRegistry(),
          [](Fault f) {
            return create_serial_collector(ConfigFor<SerialCollectorConfig>(f), nullptr, nullptr,
                                           {})
                .status();
          }),
      DescriptorOf<std::unique_ptr<IBattleCollector>>(
          &BattleCollectorRegistry(),
          [](Fault f) {
            return create_battle_collector(ConfigFor<SerialCollectorConfig>(f), nullptr, {}, {})
                .status();
          }),
      FactoryOf<std::unique_ptr<ISerialEvaluator>>(&SerialEvaluatorRegistry(),
                                                   [](Fault f) {
                                                     return create_serial_evaluator(
                                                                ConfigFor<SerialEvaluatorConfig>(f),
                                                                nullptr, nullptr, {})
                                                         .status();
                                                   }),
      FactoryOf<std::unique_ptr<IBattleEvaluator>>(
          &BattleEvaluatorRegistry(),
          [](Fault f) {
            return create_battle_evaluator(ConfigFor<SerialEvaluatorConfig>(f), nullptr, {}, {})
                .status();
          }),
      FactoryOf<std::unique_ptr<IMetricEvaluator>>(&MetricEvaluatorRegistry(),
                                                   [](Fault f) {
                                                     return create_metric_evaluator(
                                                                ConfigFor<MetricEvaluatorConfig>(f),
                                                                nullptr, nullptr, nullptr, {})
                                                         .status();
                                                   }),
      FactoryOf<std::unique_ptr<ILearner>>(
          &LearnerRegistry(),
          [](Fault f) {
            return create_learner(ConfigFor<LearnerConfig>(f), nullptr, {}).status();
          }),
      FactoryOf<std::shared_ptr<LearnerHook>>(&LearnerHookRegistry(),
                                              [](Fault f) {
                                                LearnerHooksConfig hooks;
                                                *hooks.add_hook() = ConfigFor<LearnerHookConfig>(f);
                                                return build_learner_hook_by_cfg(hooks).status();
                                              }),
      FactoryOf<std::unique_ptr<IStopper>>(
          &StopperRegistry(),
          [](Fault f) { return create_stopper(ConfigFor<StopperConfig>(f), {}).status(); }),
      DescriptorOf<std::shared_ptr<MetricSink>>(
          &SinkRegistry(),
          [](Fault f) { return create_sink(ConfigFor<SinkConfig>(f), {}).status(); }),
  };
}

std::vector<Part> ParallelParts() {
  return {
      DescriptorOf<std::unique_ptr<BaseParallelCollector>>(
          &ParallelCollectorRegistry(),
          [](Fault f) {
            return create_parallel_collector(ConfigFor<ParallelCollectorConfig>(f), {}, {}, {})
                .status();
          }),
      DescriptorOf<std::unique_ptr<BaseCommander>>(
          &CommanderRegistry(),
          [](Fault f) {
            return create_parallel_commander(ConfigFor<CommanderConfig>(f), CommanderDeps())
                .status();
          }),
      DescriptorOf<std::unique_ptr<BaseCommCollector>>(
          &CommCollectorRegistry(),
          [](Fault f) { return create_comm_collector(Given(f), nullptr, nullptr, {}).status(); }),
      DescriptorOf<std::unique_ptr<BaseCommLearner>>(
          &CommLearnerRegistry(),
          [](Fault f) { return create_comm_learner(Given(f), {}, nullptr, nullptr, {}).status(); }),
  };
}

class OwnModulesRefusalsTest : public testing::TestWithParam<Part> {};

TEST_P(OwnModulesRefusalsTest, AFactoryThatThrowsIsNamed) {
  const absl::Status status = GetParam().create(Fault::kThrows);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("the factory of ", GetParam().kind, " '", kType,
                                     "' threw an exception: out of ideas")));
}

TEST_P(OwnModulesRefusalsTest, AFactoryThatReturnsNoneIsNamed) {
  const absl::Status status = GetParam().create(Fault::kReturnsNone);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr(absl::StrCat("the factory of ", GetParam().kind, " '", kType, "' returned none")));
}

TEST_P(OwnModulesRefusalsTest, ParamsOfAnotherMessageAreRefused) {
  EXPECT_THAT(GetParam().create(Fault::kOtherParams),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(absl::StrCat("params hold a ding.SinkConfig, expected a "
                                              "ding.RemoverConfig for type '",
                                              kType, "'"))));
}

TEST_P(OwnModulesRefusalsTest, ANameThatIsRegisteredTwiceEndsTheProgramAndNamesBothPlaces) {
  EXPECT_DEATH(GetParam().register_twice(),
               absl::StrCat(GetParam().kind, " type '", kType,
                            "' is registered twice: at mine.cc:1 and at yours.cc:2"));
}

std::string NameOf(const testing::TestParamInfo<Part>& info) {
  std::string name = info.param.kind;
  for (char& c : name) c = c == ' ' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(Serial, OwnModulesRefusalsTest, testing::ValuesIn(SerialParts()), NameOf);
INSTANTIATE_TEST_SUITE_P(Parallel, OwnModulesRefusalsTest, testing::ValuesIn(ParallelParts()),
                         NameOf);

// A store has settings of its URL, which are no message.
TEST(OwnStoreRefusalsTest, AFactoryThatThrowsOrReturnsNoneIsNamed) {
  const auto status = [](Fault fault) {
    const ScopedRegistration<StoreFactory> scoped(
        &StoreRegistry(), kType, [fault](const std::string&, const StoreSettings&) {
          return Make<std::unique_ptr<Store>>(fault, Given(fault));
        });
    return create_store(absl::StrCat(kType, ":place")).status();
  };
  EXPECT_THAT(status(Fault::kThrows),
              StatusIs(absl::StatusCode::kInternal,
                       "store 'of_a_user:place': the factory of store 'of_a_user' threw an "
                       "exception: out of ideas"));
  EXPECT_THAT(status(Fault::kReturnsNone),
              StatusIs(absl::StatusCode::kInternal,
                       "store 'of_a_user:place': the factory of store 'of_a_user' returned none"));
}

// ------------------------------------------------------------- what takes no params: the rest

// Throws, or makes none.
template <typename Pointer>
Pointer MakeWithoutParams(Fault fault) {
  return Make<Pointer>(fault, {kType, nullptr}).value();
}

TEST(OwnAllReduceRefusalsTest, AFactoryThatThrowsOrReturnsNoneIsNamed) {
  const auto status = [](Fault fault) {
    const ScopedRegistration<AllReduceCreator> scoped(
        &AllReduceRegistry(), kType, [fault](const AllReduceOptions&, Rendezvous*) {
          return MakeWithoutParams<std::unique_ptr<AllReduce>>(fault);
        });
    return create_all_reduce(kType, AllReduceOptions(), nullptr).status();
  };
  EXPECT_THAT(status(Fault::kThrows),
              StatusIs(absl::StatusCode::kInternal,
                       "the factory of all-reduce 'of_a_user' threw an exception: out of ideas"));
  EXPECT_THAT(
      status(Fault::kReturnsNone),
      StatusIs(absl::StatusCode::kInternal, "the factory of all-reduce 'of_a_user' returned none"));
}

TEST(OwnVideoFormatRefusalsTest, AFactoryThatThrowsOrReturnsNoneIsNamed) {
  const auto status = [](Fault fault) {
    const ScopedRegistration<VideoEncoderFactory> scoped(
        &VideoFormatRegistry(), kType,
        [fault](int) { return MakeWithoutParams<std::unique_ptr<VideoEncoder>>(fault); });
    return MakeVideoEncoder(kType, /*frames_per_second=*/1).status();
  };
  EXPECT_THAT(status(Fault::kThrows),
              StatusIs(absl::StatusCode::kInternal,
                       "the factory of video format 'of_a_user' threw an exception: out of ideas"));
  EXPECT_THAT(status(Fault::kReturnsNone),
              StatusIs(absl::StatusCode::kInternal,
                       "the factory of video format 'of_a_user' returned none"));
}

class ThrowingCodec : public Codec {
 public:
  uint8_t id() const override { return 200; }
  size_t Compress(absl::string_view /*raw*/, absl::Span<char> /*to*/) const override {
    throw std::runtime_error("out of ideas");
  }
  bool Decompress(absl::string_view /*compressed*/, absl::Span<char> /*to*/) const override {
    throw std::runtime_error("out of ideas");
  }
  uint64_t MaxRawBytes(size_t compressed_bytes) const override { return compressed_bytes; }
};

TEST(OwnCodecRefusalsTest, OneThatThrowsOrIsNullIsNamed) {
  const ThrowingCodec codec;
  for (const Codec* const registered :
       {static_cast<const Codec*>(&codec), static_cast<const Codec*>(nullptr)}) {
    const ScopedRegistration<const Codec*> scoped(&CodecRegistry(), kType, registered);
    const absl::StatusOr<std::unique_ptr<Store>> store =
        create_store("mem:own_codec?compress=of_a_user");
    if (registered == nullptr) {
      EXPECT_THAT(store.status(),
                  StatusIs(absl::StatusCode::kInternal,
                           HasSubstr("codec 'of_a_user' is a null pointer, expected an object")));
      continue;
    }
    ASSERT_THAT(store, IsOk());
    EXPECT_THAT((*store)->Put("key", {"value"}),
                StatusIs(absl::StatusCode::kInternal,
                         HasSubstr("'key': the codec threw an exception: out of ideas")));
  }
}

TEST(OwnMetricRefusalsTest, OneThatIsNullIsNamed) {
  const ScopedRegistration<std::shared_ptr<const IMetric>> scoped(&MetricRegistry(), kType,
                                                                  nullptr);
  ExperimentConfig config;
  config.mutable_policy()->mutable_eval()->mutable_metric_evaluator()->set_metric(kType);
  EXPECT_THAT(MetricOf(config, DataSet()).status(),
              StatusIs(absl::StatusCode::kInternal,
                       "metric 'of_a_user' is a null pointer, expected an object"));
}

TEST(OwnRewardShapingRefusalsTest, OneThatIsEmptyIsNamed) {
  const ScopedRegistration<RewardShaping> scoped(&RewardShapingRegistry(), kType, nullptr);
  constexpr char kMessage[] = "reward shaping 'of_a_user' is an empty function";
  EpisodeCollectorParams params;
  params.set_reward_shaping(kType);
  SerialCollectorConfig serial;
  serial.set_type("episode");
  serial.mutable_params()->PackFrom(params);
  EXPECT_THAT(create_serial_collector(serial, nullptr, nullptr, {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(kMessage)));
  ParallelCollectorCore::Options parallel;
  parallel.reward_shaping = kType;
  EXPECT_THAT(parallel.Problems(), testing::ElementsAre(HasSubstr(kMessage)));
}

template <typename Factory>
void ExpectTwiceEndsTheProgram(Registry<Factory>* registry) {
  const auto register_twice = [&] {
    registry->Register(kType, Factory(), "the first one", "mine.cc:1");
    registry->Register(kType, Factory(), "the other one", "yours.cc:2");
  };
  EXPECT_DEATH(register_twice(),
               absl::StrCat(registry->kind(), " type '", kType,
                            "' is registered twice: at mine.cc:1 and at yours.cc:2"));
}

TEST(OwnModulesWithoutParamsTest, ANameThatIsRegisteredTwiceEndsTheProgramAndNamesBothPlaces) {
  ExpectTwiceEndsTheProgram(&StoreRegistry());
  ExpectTwiceEndsTheProgram(&AllReduceRegistry());
  ExpectTwiceEndsTheProgram(&VideoFormatRegistry());
  ExpectTwiceEndsTheProgram(&CodecRegistry());
  ExpectTwiceEndsTheProgram(&MetricRegistry());
  ExpectTwiceEndsTheProgram(&RewardShapingRegistry());
  ExpectTwiceEndsTheProgram(&ExporterRegistry());
  ExpectTwiceEndsTheProgram(&ActorDescriberRegistry());
}

}  // namespace
}  // namespace ding
