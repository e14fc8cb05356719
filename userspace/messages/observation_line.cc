// SPDX-License-Identifier: Apache-2.0
#include "messages/observation_line.h"

#include <google/protobuf/arena.h>

#include <vector>

#include "messages/convert.h"
#include "messages/json_reader.h"
#include "messages/json_schema.h"

namespace forestall::messages {
namespace {

// Enough for an observation of about 30 pods: then a line allocates only its model.
constexpr std::size_t kFirstLineBlock = std::size_t{64} << 10;

google::protobuf::ArenaOptions in_line_block(std::vector<char>& block) {
  google::protobuf::ArenaOptions options;
  options.initial_block = block.data();
  options.initial_block_size = block.size();
  return options;
}

}  // namespace

struct ObservationLineReader::Buffers {
  std::vector<char> block = std::vector<char>(kFirstLineBlock);
  google::protobuf::Arena arena{in_line_block(block)};
  JsonReader json;

  // Blocks beyond the arena's first one are freed before the next line.
  template <typename Message>
  Result<const Message*> parse(std::string_view line) {
    arena.Reset();
    auto* message = google::protobuf::Arena::CreateMessage<Message>(&arena);
    if (const auto read = json.read(line, *message); !read) {
      return read.error().in(std::to_string(json.error_offset() + 1));
    }
    return message;
  }
};

ObservationLineReader::ObservationLineReader() : buffers_(std::make_unique<Buffers>()) {}
ObservationLineReader::~ObservationLineReader() = default;
ObservationLineReader::ObservationLineReader(ObservationLineReader&&) noexcept = default;
ObservationLineReader& ObservationLineReader::operator=(ObservationLineReader&&) noexcept = default;

Result<ObservedLine> ObservationLineReader::read(std::string_view line) {
  if (!is_record_line(line)) {
    const v1::Observation& message = *TRY(buffers_->parse<v1::Observation>(line));
    return ObservedLine{TRY(from_proto(message)), false};
  }
  const v1::Record& record = *TRY(buffers_->parse<v1::Record>(line));
  if (!record.has_observation()) return error("observation: missing");
  auto observation = from_proto(record.observation());
  if (!observation) return observation.error().in("observation");
  return ObservedLine{*std::move(observation), true};
}

bool is_record_line(std::string_view line) {
  const std::size_t open = line.find('"');
  if (open == line.npos) return false;
  const std::size_t close = line.find('"', open + 1);
  if (close == line.npos) return false;
  static const JsonMessage& record = json_message(*v1::Record::descriptor());
  return record.find(line.substr(open + 1, close - open - 1), 0).has_value();
}

}  // namespace forestall::messages
