#include "coordinator/counters.h"

#include <algorithm>
#include <array>

namespace forebay {
namespace {

struct Field {
  std::uint64_t Totals::* number;
  std::uint64_t (proto::LinkCounters::*get)() const;
  void (proto::LinkCounters::*set)(std::uint64_t);
};

using C = proto::LinkCounters;
constexpr std::array kFields = {
    Field{&Totals::reads, &C::reads, &C::set_reads},
    Field{&Totals::read_bytes, &C::read_bytes, &C::set_read_bytes},
    Field{&Totals::hits, &C::hits, &C::set_hits},
    Field{&Totals::hit_bytes, &C::hit_bytes, &C::set_hit_bytes},
    Field{&Totals::misses, &C::misses, &C::set_misses},
    Field{&Totals::s3_gets, &C::s3_gets, &C::set_s3_gets},
    Field{&Totals::s3_bytes, &C::s3_bytes, &C::set_s3_bytes},
    Field{&Totals::s3_retries, &C::s3_retries, &C::set_s3_retries},
    Field{&Totals::s3_errors, &C::s3_errors, &C::set_s3_errors},
    Field{&Totals::evicted_bytes, &C::evicted_bytes, &C::set_evicted_bytes},
    Field{&Totals::peer_fills, &C::peer_fills, &C::set_peer_fills},
    Field{&Totals::cross_zone_bytes, &C::cross_zone_bytes, &C::set_cross_zone_bytes},
};

}  // namespace

Totals& Totals::operator+=(const Totals& other) {
  for (const Field& field : kFields) this->*field.number += other.*field.number;
  return *this;
}

Totals Totals::Since(const Totals& before) const {
  Totals delta;
  for (const Field& field : kFields) {
    const std::uint64_t now = this->*field.number;
    delta.*field.number = now - std::min(now, before.*field.number);
  }
  return delta;
}

void Totals::RaiseTo(const Totals& other) {
  for (const Field& field : kFields) {
    this->*field.number = std::max(this->*field.number, other.*field.number);
  }
}

Totals Totals::From(const proto::LinkCounters& message) {
  Totals totals;
  for (const Field& field : kFields) totals.*field.number = (message.*field.get)();
  return totals;
}

void Totals::WriteTo(proto::LinkCounters& message) const {
  for (const Field& field : kFields) (message.*field.set)(this->*field.number);
}

}  // namespace forebay
