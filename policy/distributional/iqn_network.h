// The network of IQN (Dabney et al. 2018, "Implicit Quantile Networks for Distributional
// Reinforcement Learning", section 3 and eq. 4), without torch: quantiles of the return of each
// action at N fractions, which are its random numbers (policy/network.h).
//
//     obs [B] ──► encoder ──► [B, D] ──────────────────┐
//                                                      ├─ product [B, N, D] ──► heads ──► "q" [B, A, N]
//     fraction [N] ──► cos(pi i fraction) ──► [N, D] ──┘
//
// D is the width of the last encoder layer; the layer behind the cosines ("cosine/0") ends with the
// activation. The fractions are the same for all rows of a batch, so that the layer behind the
// cosines runs on N rows instead of B * N, and learners of the parts of a batch get the same result
// as one learner of the whole batch. Draw() takes one fraction of each of N equal parts of [0, 1],
// and UseMeans() takes their middles.
//
// Ownership: owns parameters, gradients and working memory, which is reused while batch sizes
// repeat.
// Threads:   thread-compatible.
// Errors:    as in policy/mlp/mlp.h.
#ifndef DING_WORKER_POLICY_DISTRIBUTIONAL_IQN_NETWORK_H_
#define DING_WORKER_POLICY_DISTRIBUTIONAL_IQN_NETWORK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/network.h"

namespace ding {

struct IqnOptions {
  MlpOptions mlp;        // encoder and heads; the encoder has at least one layer
  int64_t cosines = 64;  // in 1..kMaxLayerWidth
};

class IqnNetwork : public RandomNetwork {
 public:
  // `output` has one field [A, N].
  //   kInvalidArgument  lists all problems of options, input and output
  static absl::StatusOr<std::unique_ptr<IqnNetwork>> Create(const IqnOptions& options,
                                                            SpecPtr input, SpecPtr output,
                                                            uint64_t seed);

  // The fractions [N] of the outputs; the memory lives as long as the network.
  absl::Span<const float> fraction() const { return fraction_; }
  void Draw(Rng* rng) override;
  void UseMeans() override;

  const SpecPtr& input_spec() const override { return structure_.input; }
  const SpecPtr& output_spec() const override { return structure_.output; }
  absl::Span<const ParameterInfo> parameter_info() const override { return structure_.parameters; }
  absl::Span<float> parameters() override { return parameters_.mutable_data<float>(); }
  absl::Span<const float> parameters() const override { return parameters_.data<float>(); }
  absl::Span<float> gradients() override { return gradients_.mutable_data<float>(); }

  absl::Status Infer(const ColumnsView& input, const MutableColumnsView& output) override;
  absl::Status Forward(const ColumnsView& input, const MutableColumnsView& output) override;
  absl::Status Backward(const ColumnsView& d_output) override;
  bool set_thread_team(ThreadTeam* team) override {
    for (Mlp* const part : {encoder_.get(), cosine_.get(), heads_.get()}) {
      part->set_thread_team(team);
    }
    return true;
  }
  absl::StatusOr<std::unique_ptr<Network>> Clone() const override;
  std::string info() const override;

 private:
  using Pass = absl::Status (Mlp::*)(const ColumnsView&, const MutableColumnsView&);
  struct Structure {
    SpecPtr input;
    SpecPtr output;
    MlpStructure encoder;
    MlpStructure cosine;
    MlpStructure heads;
    std::vector<ParameterInfo> parameters;
    int64_t num_actions = 0;
    int64_t num_fractions = 0;
    int64_t width = 0;  // D
    std::string description;
  };
  // The intermediate results that a pass computes between the parts.
  struct Between {
    explicit Between(const Structure& structure);

    ScratchColumns encoded;  // [B, D]
    ScratchColumns cosine;   // [N, D]
    ScratchColumns product;  // [B * N, D]
    ScratchColumns heads;    // [B * N, A]
  };

  static absl::StatusOr<Structure> MakeStructure(const IqnOptions& options, SpecPtr input,
                                                 SpecPtr output);
  explicit IqnNetwork(Structure structure);

  int64_t NumParameters() const;
  // Makes the part whose parameters begin at `offset`.
  std::unique_ptr<Mlp> MakePart(const MlpStructure& structure, int64_t offset);
  absl::Status Check(const ColumnsView& input, const MutableColumnsView& output) const;
  // Computes the outputs by `pass`: Mlp::Infer or Mlp::Forward.
  absl::Status Run(Pass pass, const ColumnsView& input, Between* between,
                   const MutableColumnsView& output);
  void FillCosines(absl::Span<float> cosines) const;
  void FillProduct(absl::Span<const float> encoded, absl::Span<const float> cosine,
                   absl::Span<float> product) const;
  // Writes d loss / d encoded and d loss / d cosine of the last Forward(), from d loss / d product.
  absl::Status SplitGradient(absl::Span<const float> d_product, absl::Span<float> d_encoded,
                             absl::Span<float> d_cosine);

  const Structure structure_;
  Tensor parameters_;
  Tensor gradients_;
  const std::unique_ptr<Mlp> encoder_;
  const std::unique_ptr<Mlp> cosine_;
  const std::unique_ptr<Mlp> heads_;
  std::vector<float> fraction_;
  ScratchColumns cosines_;  // [N, cosines]
  Between infer_;
  Between forward_;
  Between gradient_;
  int64_t forward_rows_ = -1;  // rows of the last Forward(); -1: none since the last Backward()
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_DISTRIBUTIONAL_IQN_NETWORK_H_
