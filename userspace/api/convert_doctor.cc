// SPDX-License-Identifier: Apache-2.0
// Features and tiers, as `forestall doctor` reports them.
#include "api/convert.h"
#include "api/convert_fields.h"
#include "api/utf8.h"

namespace forestall::api {

v1::FeatureReport to_proto(const FeatureReport& report) {
  v1::FeatureReport out;
  out.set_feature(std::string(to_string(report.feature)));
  out.set_state(to_enum<v1::FeatureReport::State>(report.state));
  out.set_evidence(to_utf8(report.evidence));
  return out;
}

v1::DoctorReport::Tier to_proto(Tier tier) {
  return to_enum<v1::DoctorReport::Tier>(tier);
}

}  // namespace forestall::api
