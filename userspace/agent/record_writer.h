// SPDX-License-Identifier: Apache-2.0
// Numbers records and hands them to the record sinks: the one path there, for decisions, kills and
// kills by the kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "exports/sink.h"
#include "model/record.h"

namespace forestall::agent {

// Thread rule: the loop's thread only. The sinks outlive it.
class RecordWriter {
 public:
  explicit RecordWriter(const std::vector<exports::RecordSink*>& sinks) : sinks_(sinks) {}

  // A new record, which gets the next number.
  void write(Record& record) {
    record.sequence = ++sequence_;
    write_again(record);
  }
  // A record that has its number: by now its outcome is known.
  void write_again(const Record& record) {
    for (exports::RecordSink* sink : sinks_) sink->write(record);
  }

 private:
  const std::vector<exports::RecordSink*>& sinks_;
  std::uint64_t sequence_ = 0;
};

}  // namespace forestall::agent
