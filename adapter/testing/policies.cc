#include "ding_worker/adapter/testing/policies.h"

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/a2c/a2c.pb.h"
#include "ding_worker/policy/bc/bc.pb.h"
#include "ding_worker/policy/continuous/continuous.pb.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/ppo/ppo.pb.h"
#include "ding_worker/policy/sac/sac.pb.h"
#include "ding_worker/policy/td3/td3.pb.h"
#include "ding_worker/policy/testing/random_batch.h"

namespace ding {
namespace {

SpecPtr Observation() { return *MakeSpec({Box("obs", {4})}); }
bool IsContinuous(TestPolicy kind) { return kind == TestPolicy::kSac || kind == TestPolicy::kTd3; }
bool LearnsFromTransitions(TestPolicy kind) {
  return kind == TestPolicy::kDqn || kind == TestPolicy::kBc || IsContinuous(kind);
}
SpecPtr Action(TestPolicy kind) {
  return *MakeSpec({IsContinuous(kind) ? Box("action", {2}, {-1}, {1}) : Discrete("action", 3)});
}

void FillModel(const std::string& network, NetworkConfig* model) {
  model->set_type(network);
  model->add_encoder_hidden_size(16);
  model->add_encoder_hidden_size(8);
}

void FillContinuous(const std::string& network, ContinuousConfig* config) {
  FillModel(network, config->mutable_model());
  config->set_actor_learning_rate(0.01);
  config->set_critic_learning_rate(0.01);
  config->set_grad_clip_norm(0.5);
}

class BorrowedAllReduce : public AllReduce {
 public:
  explicit BorrowedAllReduce(AllReduce* reduce) : reduce_(reduce) {}
  int rank() const override { return reduce_->rank(); }
  int world_size() const override { return reduce_->world_size(); }
  absl::Status Sum(absl::Span<float> values) override { return reduce_->Sum(values); }
  absl::Status Sum(absl::Span<double> values) override { return reduce_->Sum(values); }
  absl::Status Broadcast(std::string* bytes) override { return reduce_->Broadcast(bytes); }
  void Abort() override { reduce_->Abort(); }

 private:
  AllReduce* const reduce_;
};

// Collects the elements of all float32 tensors.
class ValuesWriter : public StateWriter {
 public:
  absl::Status Write(absl::string_view /*name*/, DType dtype, absl::Span<const int64_t> /*shape*/,
                     absl::Span<const absl::string_view> parts) override {
    if (dtype != DType::kFloat32) return absl::OkStatus();
    for (const absl::string_view part : parts) {
      const auto* const values = reinterpret_cast<const float*>(part.data());
      values_.insert(values_.end(), values, values + part.size() / sizeof(float));
    }
    return absl::OkStatus();
  }
  const std::vector<float>& values() const { return values_; }

 private:
  std::vector<float> values_;
};

}  // namespace

std::string TestPolicyName(TestPolicy kind) {
  switch (kind) {
    case TestPolicy::kDqn:
      return "dqn";
    case TestPolicy::kPpo:
    case TestPolicy::kPpoWithMaxKl:
    case TestPolicy::kPpoInMinibatches:
      return "ppo";
    case TestPolicy::kA2c:
      return "a2c";
    case TestPolicy::kBc:
      return "bc";
    case TestPolicy::kSac:
      return "sac";
    case TestPolicy::kTd3:
      return "td3";
  }
  return "";
}

std::unique_ptr<Policy> MakeTestPolicy(TestPolicy kind, GradientReducer* reducer,
                                       const std::string& network) {
  // Only one thread at a time may do this: Debian's libprotobuf is not built with ThreadSanitizer,
  // which does not see that libprotobuf's default strings are initialized only once.
  static Mutex mutex;
  MutexLock lock(&mutex);
  PolicyConfig config;
  config.set_type(TestPolicyName(kind));
  config.set_priority(kind == TestPolicy::kDqn);
  if (kind == TestPolicy::kDqn) {
    DqnConfig dqn;
    FillModel(network, dqn.mutable_model());
    dqn.set_learning_rate(0.01);
    dqn.set_grad_clip_norm(0.5);
    dqn.set_target_update_freq(2);
    config.mutable_params()->PackFrom(dqn);
  } else if (kind == TestPolicy::kA2c) {
    A2cConfig a2c;
    FillModel(network, a2c.mutable_actor_critic()->mutable_model());
    a2c.mutable_actor_critic()->set_learning_rate(0.01);
    a2c.set_adv_norm(false);
    config.mutable_params()->PackFrom(a2c);
  } else if (kind == TestPolicy::kBc) {
    BcConfig bc;
    FillModel(network, bc.mutable_model());
    bc.set_learning_rate(0.01);
    config.mutable_params()->PackFrom(bc);
  } else if (kind == TestPolicy::kSac) {
    SacConfig sac;
    FillContinuous(network, sac.mutable_continuous());
    sac.set_num_critics(3);
    sac.set_target_subset(2);
    config.mutable_params()->PackFrom(sac);
  } else if (kind == TestPolicy::kTd3) {
    Td3Config td3;
    FillContinuous(network, td3.mutable_continuous());
    td3.set_actor_update_freq(1);
    config.mutable_params()->PackFrom(td3);
  } else {
    const bool max_kl = kind == TestPolicy::kPpoWithMaxKl;
    PpoConfig ppo;
    FillModel(network, ppo.mutable_actor_critic()->mutable_model());
    ppo.mutable_actor_critic()->set_learning_rate(0.01);
    ppo.set_adv_norm(false);
    ppo.set_epoch_per_collect(max_kl ? 8 : 2);
    const int all_rows = 1 << 20;
    config.set_batch_size(kind == TestPolicy::kPpoInMinibatches ? 16 : all_rows);
    if (max_kl) ppo.set_max_kl(0.4928);
    config.mutable_params()->PackFrom(ppo);
  }
  PolicyContext context;
  context.observation = Observation();
  context.action = Action(kind);
  context.seed = 5;
  context.reducer = reducer;
  return create_policy(config, context).value();
}

Batch MakeTestBatch(TestPolicy kind, int64_t rows, uint64_t seed) {
  return LearnsFromTransitions(kind) ? MakeTransitionBatch(Observation(), Action(kind), rows, seed)
                                     : MakeOnPolicyBatch(Observation(), Action(kind), rows, seed);
}

void SpoilTestBatch(TestPolicy kind, const Batch& batch) {
  const char* const column = kind == TestPolicy::kBc       ? "obs"
                             : LearnsFromTransitions(kind) ? "reward"
                                                           : "return";
  const_cast<float&>(batch.column<float>(column)[1]) = std::numeric_limits<float>::quiet_NaN();
}

NamedValues TestSettings() { return {{"lr", 0.01}}; }

std::vector<float> ModelOf(const LearnMode& policy) {
  ValuesWriter writer;
  const absl::Status saved = policy.SaveModel(&writer);
  DING_CHECK(saved.ok()) << saved;
  return writer.values();
}

std::unique_ptr<AllReduce> Borrow(AllReduce* reduce) {
  return std::make_unique<BorrowedAllReduce>(reduce);
}

}  // namespace ding
