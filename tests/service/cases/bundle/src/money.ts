export class Purse {
  constructor(private readonly cents: number) {}

  divided(by: number): number {
    if (by === 0) {
      throw new RangeError("nobody to share with");
    }
    return this.cents / by;
  }
}
