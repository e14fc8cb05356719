// SPDX-License-Identifier: Apache-2.0
// A record sink that keeps every record.
#pragma once

#include <vector>

#include "exports/sink.h"
#include "model/record.h"

namespace forestall::test {

class RecordCollector final : public exports::RecordSink {
 public:
  void write(const Record& record) override { records.push_back(record); }
  std::vector<Record> records;
};

}  // namespace forestall::test
