// The forward pass of an actor: the layers of an ActorModel, with the weights packed for few rows.
//
// Rows stay row-major from the input to the output. A product has output features side by side in
// vectors (row_products.h), so that a single row costs one pass over the weights; Mlp has rows side
// by side, as training needs, and so takes the time of 8 rows for a single row. Each sum runs in
// the order of the inputs, as in Mlp and Rnn, so that the results have the same bytes.
//
// Ownership: owns the packed weights and working memory for a part of a batch; it does not use the
//            model after its construction.
// Threads:   thread-compatible.
#ifndef DING_WORKER_POLICY_ACTOR_ACTOR_NETWORK_H_
#define DING_WORKER_POLICY_ACTOR_ACTOR_NETWORK_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/actor_model.h"
#include "ding_worker/policy/actor/row_products.h"
#include "ding_worker/policy/mlp/panel_kernels.h"
#include "ding_worker/policy/rnn/cell_kernels.h"
#include "ding_worker/policy/rnn/rnn_structure.h"

namespace ding::internal_actor {

// One convolution of one picture, as a product of its windows with the weights.
//
// Pictures lie pixel by pixel, [rows, columns, padded channels], between the layers, so that a
// window is a few runs of memory and the product (row_products.h) writes the next picture in place.
class Convolution {
 public:
  // `in_stride` is the distance of two pixels of the input.
  Convolution(const ModelConvolution& model, int64_t in_stride);

  // The distance of two pixels of the output.
  int64_t out_stride() const { return weight_.padded_out(); }
  const ConvLayer& layer() const { return layer_; }
  // Returns the picture after the product, without the activation unless `relu`; valid until the
  // next call.
  float* Run(const RowKernels& kernels, const float* picture, bool relu);
  // The floats of a picture after the product.
  int64_t out_size() const { return output_.size(); }

 private:
  void LoadWindow(const float* picture, int64_t row, int64_t column, float* window) const;

  const ConvLayer layer_;
  const int64_t in_stride_;
  PackedMatrix weight_;  // inputs in the order of a window: kernel row, kernel column, channel
  AlignedFloats bias_;
  AlignedFloats windows_;
  AlignedFloats output_;
};

}  // namespace ding::internal_actor

namespace ding {

class ActorNetwork {
 public:
  explicit ActorNetwork(const ActorModel& model);

  // Writes the outputs (model.outputs) for `input` [B, ...] (model.inputs, normalized). `states`
  // [B, model.state_size()] are the states before the rows, which Run() replaces by the states
  // after the rows; null without memory.
  void Run(const ColumnsView& input, float* states, const MutableColumnsView& output);

 private:
  // Rows of floats, each `stride` after the one before it.
  struct Rows {
    const float* data = nullptr;
    int64_t stride = 0;
  };
  struct Layer {
    internal_actor::PackedMatrix weight;
    internal_actor::AlignedFloats bias;
    internal_actor::AlignedFloats output;  // [kRowsAtOnce, padded width]
    bool hidden = false;
  };
  struct Head {
    std::vector<Layer> layers;
    std::vector<Layer> value;
    int64_t width = 0;
    int64_t per_action = 1;  // outputs for each action, of a dueling head
  };

  // The width of the gates is padded to a multiple of a vector's width.
  struct Cell {
    RnnCell cell = RnnCell::kLstm;
    int64_t hidden = 0;
    int64_t padded = 0;
    internal_actor::PackedMatrix weight_ih;
    internal_actor::PackedMatrix weight_hh;
    internal_actor::AlignedFloats bias;
    internal_actor::AlignedFloats bias_hh;   // GRU
    internal_actor::AlignedFloats gates;     // [kRowsAtOnce, kKeptGates * padded]
    internal_actor::AlignedFloats products;  // [kRowsAtOnce, gates * padded], GRU
    internal_actor::AlignedFloats before;    // [2, kRowsAtOnce, padded]: h, c
    internal_actor::AlignedFloats after;     // [3, kRowsAtOnce, padded]: h, c, tanh(c)

    bool is_lstm() const { return cell == RnnCell::kLstm; }
  };
  struct Field {
    FieldSpec spec;
    int64_t width = 0;   // number of features that the field becomes
    int64_t offset = 0;  // in a row of `features_`
    std::vector<internal_actor::Convolution> convolutions;
  };

  static Layer Pack(const ModelLayer& layer);
  static std::vector<Layer> Pack(const std::vector<ModelLayer>& layers);
  static Cell Pack(const ModelCell& cell);

  Rows LoadInput(const ColumnsView& input);
  // Writes the features of the picture in `picture_`.
  void RunConvolutions(Field& field, float* features) const;
  Rows RunLayer(Layer& layer, Rows x, int64_t rows) const;
  Rows RunCell(Rows x, int64_t rows, float* states);
  void RunCellRow(int64_t row);
  void RunHead(Head& head, Rows x, int64_t rows, float* output) const;
  // Writes the means of the distributions of the head's outputs.
  void RunDistribution(Head& head, Rows x, int64_t rows, float* output);
  // Writes the quantiles of a row at all fractions to `quantiles_` [A, N].
  void RunFractions(Head& head, const float* x);

  const internal_actor::RowKernels& products_;
  const internal_mlp::PanelKernels& elementwise_;
  const internal_rnn::CellKernels& cells_;
  const bool tanh_;
  std::vector<Field> fields_;
  int64_t feature_width_ = 0;
  internal_actor::AlignedFloats picture_;   // [pixels, channels] of an input
  internal_actor::AlignedFloats features_;  // [kRowsAtOnce, feature_width_]
  std::vector<Layer> encoder_;
  std::optional<Cell> cell_;
  std::vector<Head> heads_;
  const std::optional<ActorDescription::Distribution> distribution_;
  internal_actor::AlignedFloats fraction_features_;  // [N, D]
  internal_actor::AlignedFloats products_of_row_;    // [kRowsAtOnce, D]
  internal_actor::AlignedFloats head_outputs_;       // [kRowsAtOnce, width of the head]
  internal_actor::AlignedFloats quantiles_;          // [A, N]
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_ACTOR_NETWORK_H_
