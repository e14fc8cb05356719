// SPDX-License-Identifier: Apache-2.0
#include "messages/convert_fields.h"
#include "messages/recording_entries.h"
#include "text/utf8.h"

namespace forestall::messages {
namespace {

Result<FeatureReport> from_proto(const v1::FeatureReport& message) {
  const auto feature = parse_feature(message.feature());
  if (!feature) return error("unknown '" + message.feature() + "'");
  const auto state =
      TRY(from_enum<FeatureState>(message.state(), v1::FeatureReport::State_MAX, "state"));
  return FeatureReport{*feature, state, message.evidence()};
}

}  // namespace

v1::RecordingFacts to_proto(const RecordingFacts& facts) {
  v1::RecordingFacts out;
  out.set_version(text::to_utf8(facts.version));
  out.set_recorder(to_enum<v1::RecordingFacts::Recorder>(facts.recorder));
  out.set_pid(facts.pid);
  out.set_node(text::to_utf8(facts.node));
  out.set_kernel(text::to_utf8(facts.kernel));
  out.set_boot_id(text::to_utf8(facts.boot_id));
  out.set_began_ns(to_ns(facts.began));
  *out.mutable_began() = to_timestamp(facts.began_wall_ns);
  out.set_tier(to_proto(facts.tier));
  for (const FeatureReport& report : facts.features) *out.add_features() = to_proto(report);
  out.set_config_origin(text::to_utf8(facts.config_origin));
  out.set_interval_ns(facts.interval.count());
  return out;
}

std::string encode(const RecordingFacts& facts) {
  return to_proto(facts).SerializeAsString();
}

Result<RecordingFacts> decode_facts(std::string_view bytes) {
  v1::RecordingFacts message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return error("the facts in the header cannot be parsed");
  }
  RecordingFacts facts;
  facts.version = message.version();
  facts.recorder =
      TRY(from_enum<RecordedBy>(message.recorder(), v1::RecordingFacts::Recorder_MAX, "recorder"));
  facts.pid = message.pid();
  facts.node = message.node();
  facts.kernel = message.kernel();
  facts.boot_id = message.boot_id();
  facts.began = from_ns(message.began_ns());
  facts.began_wall_ns = TRY(nanoseconds(message.began()));
  facts.tier = TRY(from_enum<Tier>(message.tier(), v1::DoctorReport::Tier_MAX, "tier"));
  // A newer version may have features that this one does not.
  for (const v1::FeatureReport& each : message.features()) {
    if (const auto report = from_proto(each)) facts.features.push_back(*report);
  }
  facts.config_origin = message.config_origin();
  facts.interval = Duration(message.interval_ns());
  return facts;
}

}  // namespace forestall::messages
