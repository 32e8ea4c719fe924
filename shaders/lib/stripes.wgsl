// Where the vectors of a weight's rows are: STRIPE rows are side by side, vector by vector, so that invocations
// side by side that take neighbouring rows read neighbouring vectors. Where STRIPE is 1, rows follow one another.

override STRIPE: u32 = 1u;

// Vector `number` of a row of `count` vectors.
fn vector_at(row: u32, number: u32, count: u32) -> u32 {
    return params.quants + (row / STRIPE * count + number) * STRIPE + row % STRIPE;
}
