// SPDX-License-Identifier: Apache-2.0
#include "api/record_stream.h"

#include "api/convert.h"
#include "api/json.h"

namespace forestall::api {

void RecordStream::write(const Record& record) {
  if (record.decision.action == Action::kill && !record.outcome) return;
  out_.write_text(exports::LogLevel::info, to_json(to_proto(record), JsonStyle::line));
}

}  // namespace forestall::api
