// SPDX-License-Identifier: Apache-2.0
// Features and tiers, as `forestall doctor` reports them.
#include "messages/convert.h"
#include "messages/convert_fields.h"
#include "text/utf8.h"

namespace forestall::messages {

v1::FeatureReport to_proto(const FeatureReport& report) {
  v1::FeatureReport out;
  out.set_feature(std::string(to_string(report.feature)));
  out.set_state(to_enum<v1::FeatureReport::State>(report.state));
  out.set_evidence(text::to_utf8(report.evidence));
  return out;
}

v1::DoctorReport::Tier to_proto(Tier tier) {
  return to_enum<v1::DoctorReport::Tier>(tier);
}

v1::BpfCounter to_proto(const BpfCounter& counter) {
  v1::BpfCounter out;
  out.set_object(std::string(counter.object));
  out.set_counter(std::string(counter.counter));
  if (!counter.kind.empty()) out.set_kind(std::string(counter.kind));
  out.set_value(counter.value);
  out.set_loss(counter.loss);
  return out;
}

}  // namespace forestall::messages
